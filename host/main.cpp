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
#include "sandbox/workspace/workspace_home.h"

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

constexpr const char* kUsage =
    "usage: khost SCRIPT.lua | COMMAND [arguments]; khost --help lists commands and recipes\n";

std::string command_path(const std::string& root, const std::string& name) {
  return root + "/scripts/commands/" + name + ".lua";
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
  if (arguments.empty()) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  std::string name = arguments[0];
  std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (name == "help" && !rest.empty()) {  // of one command: it says so itself
    name = rest[0];
    rest = {"--help"};
  }
  if (name == "--help" || name == "-h") {
    name = "help";
  }
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
    std::fprintf(stderr, "khost: no command '%s'; did you mean '%s'?\n%s", name.c_str(),
                 khost::nearest(name, commands).c_str(), kUsage);
    return 2;
  }
  return host.run_script(command_path(host.root(), name), rest);
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
