-- `khost doctor`: what this machine offers, and what to do about what it lacks.

local fs = require "khost.fs"
local log = require "khost.log"
local machine = require "khost.machine"

local GIB = 1024 ^ 3

-- Exit codes and messages of a program that may not be there.
local function try(argv, timeout_s)
  local result, message = machine.run(argv, { timeout_s = timeout_s or 30 })
  if not result then
    return false, message
  end
  return result.code == 0, (result.output:gsub("%s+$", "")), result.wall_s
end

local function first_line(text)
  return (text or ""):match("[^\n]*")
end

local function python()
  return fs.env("KHOST_PYTHON") or "/usr/bin/python3"
end

-- Every check returns "ok" | "note" | "lack", what was found, and for a lack the remedy.

local function cores()
  local facts = machine.facts()
  local text = ("%d of %d cores, kernel %s"):format(facts.cores or facts.cores_online, facts.cores_online,
    facts.kernel or "?")
  if (facts.cores or facts.cores_online) < 2 then
    return "lack", text, "timing needs a core for the candidate and one for everything else: use a machine with two"
  end
  return "ok", text
end

local function memory()
  local facts = machine.facts()
  local total = math.min(facts.memory_bytes or 0, facts.memory_limit_bytes or math.huge)
  local text = ("%.1f GiB, %.1f GiB of them free"):format(total / GIB,
    math.min(facts.memory_available_bytes or 0, total) / GIB)
  if total < 6 * GIB then
    return "lack", text, "the smoke preset needs about 6 GiB: fewer episodes at once, --set machine.episodes=2"
  end
  return "ok", text
end

local function disk()
  local free = machine.facts().disk_free_bytes or 0
  local text = ("%.1f GiB free at %s"):format(free / GIB, fs.root())
  if free < 5 * GIB then
    return "lack", text, "PyTorch and runs need 5 GiB: free some, or put runs elsewhere, --set machine.runs=/path"
  end
  return "ok", text
end

-- A program that must be there: its version, or how to get it.
local function program(name, what, remedy)
  return function()
    local found, text = try { name, "--version" }
    if not found then
      return "lack", "no " .. what, remedy
    end
    return "ok", first_line(text)
  end
end

local compiler = program("g++", "g++", "apt-get install g++")
local bubblewrap = program("bwrap", "bubblewrap", "apt-get install bubblewrap")

local function tools()
  local lacking = {}
  for _, tool in ipairs { "rg", "ccache", "ninja", "cmake" } do
    if not try { tool, "--version" } then
      lacking[#lacking + 1] = tool
    end
  end
  if #lacking > 0 then
    return "note", "missing: " .. table.concat(lacking, ", "),
      "apt-get install ripgrep ccache ninja-build cmake (rg is what the agent's Grep runs)"
  end
  return "ok", "rg, ccache, ninja, cmake"
end

local function namespaces()
  local root = machine.facts().user_id == 0
  local argv = { "bwrap", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--ro-bind", "/", "/",
    "--proc", "/proc", "true" }
  if not root then
    table.insert(argv, 2, "--unshare-user")
  end
  local works, text = try(argv)
  if works then
    return "ok", root and "pid, net, ipc, uts and mount namespaces as root" or "namespaces through a user namespace"
  end
  if root then
    return "lack", "bubblewrap cannot make namespaces: " .. first_line(text),
      "in a container: run it with --privileged, or --cap-add SYS_ADMIN --security-opt seccomp=unconfined " ..
      "--security-opt apparmor=unconfined"
  end
  local restricted = fs.read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
  if restricted and restricted:match("^1") then
    return "lack", "AppArmor forbids user namespaces to ordinary users",
      "as root: sysctl kernel.apparmor_restrict_unprivileged_userns=0"
  end
  return "lack", "user namespaces are forbidden: " .. first_line(text),
    "as root: sysctl kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000"
end

local function control_groups()
  local facts = machine.facts()
  if facts.user_id == 0 and fs.exists("/sys/fs/cgroup/cgroup.controllers") then
    return "ok", "control groups, version 2"
  elseif facts.user_id == 0 and fs.exists("/sys/fs/cgroup/memory") then
    return "ok", "control groups, version 1"
  end
  return "note", "no control groups for us",
    "jails fall back to limits per process; memory of a whole jail is then not limited"
end

local function programs()
  local lacking = {}
  for _, name in ipairs { "khost-judge", "khost-subject", "khost-jail-exec", "libkhost_subject_python.so" } do
    if not fs.exists(fs.build_dir() .. "/" .. name) then
      lacking[#lacking + 1] = name
    end
  end
  if #lacking > 0 then
    return "lack", "not built: " .. table.concat(lacking, ", "), "./khost setup"
  end
  return "ok", "khost's own programs in " .. fs.build_dir()
end

local function torch()
  local found, text, wall_s = try({ python(), "-c",
    "import torch; print(torch.__version__, torch.get_num_threads(), torch.cuda.is_available())" }, 120)
  if not found then
    return "lack", python() .. " has no PyTorch",
      "./khost setup makes an environment that has one; or point KHOST_PYTHON at one"
  end
  local version, threads = text:match("(%S+) (%d+) %S+%s*$")
  return "ok", ("PyTorch %s in %s, %s threads, imported in %.1f s"):format(version or "?", python(), threads or "?",
    wall_s)
end

local function python_headers()
  local found = try { python(), "-c",
    "import os, sysconfig, sys; sys.exit(not os.path.exists(sysconfig.get_paths()['include'] + '/Python.h'))" }
  if not found then
    return "lack", "no Python.h for " .. python(),
      "torch.compile on the CPU compiles against it: apt-get install python3-dev"
  end
  return "ok", "Python.h is there, so torch.compile works on the CPU"
end

local function gpu()
  local found, text = try { "nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader" }
  if not found then
    return "note", "no NVIDIA GPU", "only the CPU target: that is what --set machine.target=cpu (the default) is for"
  end
  local toolkit, version = try { "nvcc", "--version" }
  if not toolkit then
    return "lack", first_line(text) .. ", but no nvcc", "install the CUDA toolkit 13 and put its bin on the PATH"
  end
  return "ok", ("%s; nvcc %s"):format(text:gsub("\n", "; "), version:match("release ([%d.]+)") or "?")
end

local CHECKS = {
  { "cores", cores },
  { "memory", memory },
  { "disk", disk },
  { "compiler", compiler },
  { "tools", tools },
  { "bubblewrap", bubblewrap },
  { "namespaces", namespaces },
  { "control groups", control_groups },
  { "programs", programs },
  { "PyTorch", torch },
  { "Python headers", python_headers },
  { "GPU", gpu },
}

local MARKS = { ok = "ok  ", note = "note", lack = "LACK" }

local function run(arguments)
  if #arguments > 0 then
    local help = arguments[1] == "--help" or arguments[1] == "-h"
    log.print("usage: khost doctor\n\nSays what this machine offers and what to do about what it lacks. Exits 1 when "
      .. "something needed is missing.")
    return help and 0 or 2
  end
  local lacks = 0
  for _, check in ipairs(CHECKS) do
    local status, text, remedy = check[2]()
    log.print(("%s  %-15s %s"):format(MARKS[status], check[1], text))
    if status ~= "ok" then
      log.print(("      %-15s %s"):format("", remedy))
    end
    lacks = lacks + (status == "lack" and 1 or 0)
  end
  log.print(lacks == 0 and "\nThis machine has all that khost needs." or
    ("\n%d needed thing%s missing; the remedies stand above."):format(lacks, lacks == 1 and " is" or "s are"))
  return lacks == 0 and 0 or 1
end

return {
  name = "doctor",
  summary = "what this machine offers, and what to do about what it lacks",
  run = run,
}
