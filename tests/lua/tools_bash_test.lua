-- Bash, BashOutput, KillBash: one spec for each behaviour that agents rely on, in real shells.
local fs = require "khost.fs"
local kit = require "tests.lua.toolkit"
local sched = require "khost.sched"
local t = require "tests.lua.harness"

local bash, has, has_not, within = kit.bash, kit.has, kit.has_not, kit.within

-- Processes of this machine whose command line holds the text.
local function alive(text)
  local count = 0
  for _, path in ipairs(fs.glob("/proc/[0-9]*/cmdline")) do
    local line = fs.read(path)
    if line and line:find(text, 1, true) then count = count + 1 end
  end
  return count
end

-- Text that no other process has in its command line; as sleep's argument it is a long time.
local asked = 0
local function odd_seconds()
  asked = asked + 1
  return ("3600.%d%d"):format(sched.random("odd" .. sched.wall_clock()):integer(10 ^ 6, 10 ^ 7), asked)
end

local spec = {}

function spec.b01_directory_environment_and_functions_persist()
  within(function(call)
    bash(call, "cd kernels; export X=1; y=2; f() { echo \"f $1\"; }; alias g='echo alias'; shopt -s expand_aliases")
    has(bash(call, "pwd; echo $X $y; f 3"), "/workspace/kernels\n1 2\nf 3\n[exit code 0")
  end)
end

function spec.b01_a_cd_out_of_the_allowed_folders_is_undone_and_said()
  within(function(call)
    local seen = bash(call, "cd /usr/lib; pwd")
    has(seen, "/usr/lib\n")
    has(seen, "in /workspace]")
    has(seen, "the directory was set back to /workspace")
    has(bash(call, "pwd"), "/workspace\n")
    has(bash(call, "cd /tmp && pwd"), "in /tmp]")
  end)
end

function spec.b02_exit_code_time_and_truncation_are_always_said()
  within(function(call)
    t.is_true(bash(call, "(exit 7)"):find("^%[exit code 7, %d+%.%d%d s, in /workspace%]$"), "exit, time and directory")
    has(bash(call, "seq 100000"), "[the middle of the output was left out")
    has_not(bash(call, "seq 10"), "left out")
    has(bash(call, "kill -9 $BASHPID"), "[the shell died and was replaced")
  end)
end

function spec.b02_a_timeout_kills_the_commands_group_and_not_the_shell()
  within(function(call)
    local odd = odd_seconds()
    bash(call, "kept=yes")
    local begin = sched.now()
    kit.refused(call("Bash", { command = "sleep " .. odd .. " | sleep " .. odd, timeout = 300 }), "timeout")
    t.is_true(sched.now() - begin < 5, "the timeout came late")
    t.expect(alive(odd), 0)
    local after = bash(call, "echo $kept")
    has(after, "yes\n")
    has_not(after, "replaced")
  end)
end

function spec.b02_a_shell_that_died_is_replaced_in_its_directory_and_the_loss_is_said()
  within(function(call)
    bash(call, "cd kernels; lost=1")
    has(bash(call, "kill -9 $$"), "variables and functions are lost")
    has(bash(call, "echo [$lost] $PWD"), "[] /workspace/kernels")
  end)
end

function spec.b02_a_command_that_spoils_the_shell_does_not_spoil_those_behind_it()
  for _, spoils in ipairs { "PATH=/nowhere", "mkdir /tmp/d; cd /tmp/d; rmdir /tmp/d", "exec >/dev/null 2>&1",
    "set -e; false", "exec 62>&-", "unset khost_marker; readonly khost_marker=x", "enable -n read printf eval",
    "trap '' TERM INT HUP" } do
    within(function(call)
      bash(call, spoils, { timeout = 1000 })
      bash(call, "true", { timeout = 1000 })  -- may be the one that finds the shell dead
      local seen = bash(call, "cd /workspace; echo one; (exit 3)")
      t.is_true(seen:find("^one\n%[exit code 3, [%d.]+ s, in /workspace%]$"), spoils .. ": " .. seen)
    end)
  end
end

function spec.b02_tracing_shows_the_command_and_nothing_else()
  within(function(call)
    bash(call, "export KEPT=yes; set -x")
    local seen = bash(call, "echo one"):gsub("%[exit.*", "")
    t.is_true(seen:find("^%++ echo one\none\n$"), seen)
    call("Bash", { command = "echo $KEPT", run_in_background = true })
    t.eventually(function() return call("BashOutput", { bash_id = "bash_1" }).text:find("yes\n", 1, true) end)
  end)
end

function spec.b03_standard_input_is_empty()
  within(function(call)
    local begin = sched.now()
    has(bash(call, "read line; echo \"code $?\"; cat; python3 -c 'input()' 2>&1 | tail -n 1"), "code 1\nEOFError")
    t.is_true(sched.now() - begin < 5)
  end)
end

function spec.b04_a_timeout_ends_background_commands_too()
  within(function(call)
    local odd = odd_seconds()
    call("Bash", { command = "sleep " .. odd, run_in_background = true, timeout = 300 })
    t.eventually(function() return call("BashOutput", { bash_id = "bash_1" }).text:find("timed_out", 1, true) end)
    t.expect(alive(odd), 0)
  end)
end

function spec.b04_an_unknown_background_command_is_answered_with_the_known_ones()
  within(function(call)
    kit.refused(call("BashOutput", { bash_id = "bash_1" }), "unknown_job")
    call("Bash", { command = "true", run_in_background = true })
    call("Bash", { command = "true", run_in_background = true })
    has(kit.refused(call("BashOutput", { bash_id = "bash_7" }), "unknown_job"), "bash_1, bash_2")
    kit.refused(call("KillBash", { shell_id = "bash_7" }), "unknown_job")
  end)
end

function spec.b05_status_comes_from_the_process_that_was_waited_for()
  within(function(call)
    call("Bash", { command = "exit 5", run_in_background = true })
    call("Bash", { command = "sleep 600", run_in_background = true })
    t.eventually(function()
      local text = call("BashOutput", { bash_id = "bash_1" }).text
      return text:find("[failed, exit code 5, ", 1, true)
    end)
    has(call("BashOutput", { bash_id = "bash_2" }), "[running, ")
    has(call("KillBash", { shell_id = "bash_2" }), "killed")
    local killed = call("BashOutput", { bash_id = "bash_2" })
    has(killed, "[killed")
    has_not(killed, "exit code 0")
  end)
end

function spec.b06_daemons_die_with_their_command_and_with_their_episode()
  local odd, again = odd_seconds(), odd_seconds()
  local daemon = "setsid nohup bash -c 'setsid sleep %s >/dev/null 2>&1 & disown' >/dev/null 2>&1 &"
  within(function(call)
    bash(call, daemon:format(odd))
    t.eventually(function() return alive(odd) > 0 end)
    call("Bash", { command = daemon:format(again) .. " sleep 600", run_in_background = true })
    t.eventually(function() return alive(again) > 0 end)
    call("KillBash", { shell_id = "bash_1" })
    t.expect(alive(again), 0)
    t.is_true(alive(odd) > 0, "a daemon of the shell lives as long as the shell")
  end)
  t.eventually(function() return alive(odd) == 0 end)
end

function spec.b07_nothing_moves_to_the_background_unless_asked()
  within(function(call, context)
    has(bash(call, "sleep 0.4; echo late", { timeout = 20000 }), "late\n")
    t.expect(context.shell:jobs(), {})
  end)
end

function spec.b08_no_output_is_taken_for_the_end_of_a_command()
  within(function(call)
    -- What the shell reports with is a descriptor and a random word; printing either only hurts the command itself.
    local forged = "printf '%s 0 - /etc\\0' \"$khost_marker\"; printf 'khost1x2 0 - /etc\\0'"
    has(bash(call, forged .. "; echo end"), "end\n[exit code 0")
    has(bash(call, forged .. "; (exit 4)"), "[exit code 4, ")
    has(bash(call, "printf 'khost1x2 0 - /etc\\0' >&61; sleep 0.1; echo whole"), "whole\n")
    has(bash(call, "pwd"), "/workspace\n")
  end)
end

function spec.b08_a_forged_report_does_not_shift_the_answers_of_later_commands()
  within(function(call)
    bash(call, "printf '%s 0 - /workspace\\0' \"$khost_marker\" >&61; sleep 0.2; echo behind")
    has(bash(call, "echo one; exit 3"), "[exit code 3")
    has(bash(call, "echo two"), "two\n[exit code 0")
  end)
end

function spec.b09_malformed_quoting_is_an_error_and_nothing_runs()
  within(function(call)
    for _, command in ipairs { "touch kernels/ran; echo \"open", "touch kernels/ran\ncat <<EOF\nno end",
      "touch kernels/ran; if true",
      "touch kernels/ran; echo $(" } do
      local seen = bash(call, command)
      has(seen, "not run, the command has a syntax error")
      has(seen, "[exit code 2")
    end
    has(bash(call, "ls kernels"), "a.cpp\n[")
  end)
end

function spec.b10_head_and_tail_are_kept_and_the_gap_is_counted()
  within(function(call)
    local seen = bash(call, "echo first; head -c 100000 /dev/zero | tr '\\0' x; echo; echo last")
    has(seen, "first\n")
    has(seen, "last\n")
    t.is_true(#seen < 31000, "longer than the limit")
    local dropped = tonumber(seen:match("(%d+) bytes"))
    t.is_true(dropped and dropped > 60000 and dropped < 80000, "the notice must count: " .. seen:sub(14900, 15200))
  end)
end

function spec.b11_cuts_are_clean_and_escapes_and_progress_bars_are_gone()
  within(function(call)
    has(bash(call, "printf '\\033[31mred\\033[0m 10%%\\r50%%\\r100%%\\n'"), "100%\n")
    has_not(bash(call, "printf '\\033[31mred\\033[0m\\n'"), "\27")
    has(bash(call, "printf 'a\\xffb\\n'"), "a\239\191\189b\n")
    local seen = bash(call, "for i in $(seq 20000); do printf 'äöü'; done")
    local sum = seen:match("^(.-)\n%[exit") or seen
    for at, byte in sum:gmatch("()([\192-\255])") do
      local need = byte:byte() >= 240 and 3 or byte:byte() >= 224 and 2 or 1
      t.is_true(sum:sub(at + 1, at + need):find("^[\128-\191]+$"), "a character was cut at " .. at)
    end
  end)
end

function spec.b12_all_of_a_long_output_can_be_read()
  within(function(call)
    local path = bash(call, "seq 100000"):match("all of it: (%S-)%]")
    t.is_true(path, "no file was named")
    has(call("Read", { file_path = path, offset = 50000, limit = 1 }), " 50000\t50000\n")
    call("Bash", { command = "seq 60000; sleep 60", run_in_background = true })
    local seen
    t.eventually(function()
      seen = call("BashOutput", { bash_id = "bash_1" })
      return seen.text:find("all of it: ", 1, true)
    end)
    kit.ok(call("Read", { file_path = seen.text:match("all of it: (%S-)%]"), limit = 1 }))
  end)
end

return spec
