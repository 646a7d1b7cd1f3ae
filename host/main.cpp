// khost SCRIPT.lua [arguments] runs a recipe; khost COMMAND [arguments] runs scripts/commands/COMMAND.lua.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "host/config/nearest.h"
#include "host/host.h"
#include "sandbox/workspace_home.h"

namespace {

namespace fs = std::filesystem;

std::vector<std::string> command_names(const std::string& root) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root + "/scripts/commands", error)) {
    if (entry.path().extension() == ".lua") {
      names.push_back(entry.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

void print_usage(std::FILE* to, const std::string& root) {
  std::fprintf(to,
               "usage: khost SCRIPT.lua [--preset NAME] [--set KEY=VALUE]...   run a recipe, for example\n"
               "                                                           recipes/expert.lua\n"
               "       khost COMMAND [arguments]                           COMMAND --help says more\n\ncommands:");
  for (const std::string& name : command_names(root)) {
    std::fprintf(to, " %s", name.c_str());
  }
  std::fprintf(to, "\n");
}

// A script is looked for where the user stands first, then in khost's own folder.
std::string find_script(const std::string& root, const std::string& name) {
  if (fs::exists(name)) {
    return fs::absolute(name).lexically_normal().string();
  }
  const std::string inside = root + "/" + name;
  return fs::exists(inside) ? inside : "";
}

// An installed khost knows the Python that it was built with. The launcher, and users, set KHOST_PYTHON themselves.
void adopt_python(const std::string& root) {
  std::string path;
  if (std::ifstream file(root + "/python"); std::getline(file, path) && !path.empty()) {
    setenv("KHOST_PYTHON", path.c_str(), 0);
  }
}

int run(const std::vector<std::string>& arguments) {
  khost::Host host({});
  adopt_python(host.root());
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") {
    print_usage(arguments.empty() ? stderr : stdout, host.root());
    return arguments.empty() ? 2 : 0;
  }
  const std::string& name = arguments[0];
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (name == "--version") {
    std::printf("khost %s\n", KHOST_VERSION);
    return 0;
  }
  if (name.ends_with(".lua")) {
    const std::string path = find_script(host.root(), name);
    if (path.empty()) {
      std::fprintf(stderr, "khost: no script '%s', neither here nor under %s\n", name.c_str(), host.root().c_str());
      return 2;
    }
    return host.run_script(path, rest);
  }
  const auto commands = command_names(host.root());
  if (std::find(commands.begin(), commands.end(), name) == commands.end()) {
    std::fprintf(stderr, "khost: no command '%s'; did you mean '%s'?\n\n", name.c_str(),
                 khost::nearest(name, commands).c_str());
    print_usage(stderr, host.root());
    return 2;
  }
  return host.run_script(host.root() + "/scripts/commands/" + name + ".lua", rest);
}

}  // namespace

int main(int argc, char** argv) {
  khost::sandbox::keep_mounts_private();
  khost::sandbox::sweep_homes();
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "khost: %s\n", error.what());
    return 1;
  }
}
