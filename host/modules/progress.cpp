// Lua face of host/log/progress.h.
#include "host/log/progress.h"

#include "host/lua/bind.h"
#include "host/modules/modules.h"

namespace khost::lua {

constexpr const char* class_name(Tag<Bar>) {
  return "Bar";
}

namespace {

std::shared_ptr<Bar> begin(std::string title, std::optional<int64_t> total) {
  return process_progress()->begin(std::move(title), total);
}

void bar_add(std::shared_ptr<Bar> bar, std::optional<int64_t> n, Json values) {
  bar->add(n.value_or(1), values);
}
void note(std::shared_ptr<Bar> bar, std::string text) {
  bar->note(std::move(text));
}
void finish(std::shared_ptr<Bar> bar, std::optional<std::string> text) {
  bar->finish(text.value_or(""));
}

}  // namespace

}  // namespace khost::lua

namespace khost::modules {

void open_progress(lua_State* L) {
  using namespace lua;
  add_class<Bar>(L, {def<bar_add>("add"), def<note>("note"), def<finish>("finish")});
  lua_newtable(L);
  add(L, {def<begin>("begin")});
}

}  // namespace khost::modules
