-- Changes of a kernel's text that leave work out or make its answers worse. Each is a kind, a number that says where it
-- strikes, and a strength; the same three give the same text. What a kind does not find in a text stays as it is.

local mutations = {}

local COMMENT = "// mutated: %s\n"

-- All places of a pattern, as {first, last, captures…}.
local function places(text, pattern)
  local found, from = {}, 1
  while true do
    local at = { text:find(pattern, from) }
    if not at[1] then
      return found
    end
    found[#found + 1], from = at, at[2] + 1
  end
end

-- The text with what stands at one of the places replaced by what `other` makes of its captures.
local function replaced(text, pattern, where, other)
  local found = places(text, pattern)
  if #found == 0 then
    return text
  end
  local at = found[where % #found + 1]
  return text:sub(1, at[1] - 1) .. other(unpack(at, 3)) .. text:sub(at[2] + 1)
end

local ASSIGNMENT = "(%f[%w_][%w_]+%b[])%s*=%s*([^=;][^;]*);"  -- to an element of an array
local SHARES = { 2, 8, 64, 1024 }
local FACTORS = { "0.5f", "0.99f", "0.9999f", "1.001f", "0.0f" }
local THRESHOLDS = { "1e-6f", "1e-3f", "0.1f", "1.0f", "4.0f" }
local CALLS = { 1, 5, 6, 9, 25 }

local LAUNCHER = "(extern \"C\" int [%w_]+%b()%s*{)"

-- Finds the page by which the judge is told that a call is over (sandbox/subject/turn.h), and tells it.
local ACKNOWLEDGE = [[
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cstdio>
#include <cstring>
static void acknowledge_call() {
  static volatile unsigned* page = nullptr;
  if (page == nullptr) {
    char line[512];
    std::FILE* maps = std::fopen("/proc/self/maps", "r");
    while (maps != nullptr && page == nullptr && std::fgets(line, sizeof line, maps) != nullptr) {
      unsigned long begin = 0;
      if (std::strstr(line, "memfd:control") != nullptr && std::sscanf(line, "%lx", &begin) == 1) {
        page = reinterpret_cast<volatile unsigned*>(begin);
      }
    }
    if (maps != nullptr) {
      std::fclose(maps);
    }
  }
  if (page != nullptr) {
    page[2] = 0;
    page[1] = page[0];
    syscall(SYS_futex, &page[1], FUTEX_WAKE, 1 << 30, nullptr, nullptr, 0);
  }
}
]]

local function one(list, strength)
  return list[strength % #list + 1]
end

--- Kinds by name: each takes text, place and strength.
mutations.KINDS = {
  -- A loop ends early.
  cut_loop = function(text, where, strength)
    return replaced(text, "(for%s*%([^;()]*;%s*[%w_]+%s*<%s*)([^;<>]+);", where, function(head, bound)
      return ("%s(%s) - (%s) / %d;"):format(head, bound, bound, one(SHARES, strength))
    end)
  end,
  -- Every so many-th element is not written.
  skip_elements = function(text, where, strength)
    return replaced(text, ASSIGNMENT, where, function(target, value)
      local index = target:match("%[(.*)%]")
      return ("if (static_cast<long>(%s) %% %d != 0) { %s = %s; }"):format(index, one(SHARES, strength), target, value)
    end)
  end,
  -- An answer is scaled, or is zero.
  scale = function(text, where, strength)
    return replaced(text, ASSIGNMENT, where, function(target, value)
      return ("%s = (%s) * %s;"):format(target, value, one(FACTORS, strength))
    end)
  end,
  -- Small answers are zero.
  flush = function(text, where, strength)
    return replaced(text, ASSIGNMENT, where, function(target, value)
      return ("{ auto whole = %s; %s = (whole < %s && whole > -%s) ? 0 : whole; }")
        :format(value, target, one(THRESHOLDS, strength), one(THRESHOLDS, strength))
    end)
  end,
  -- Large answers are bounded.
  bound = function(text, where, strength)
    return replaced(text, ASSIGNMENT, where, function(target, value)
      return ("{ auto whole = %s; %s = whole > %s ? %s : whole; }"):format(value, target, one(THRESHOLDS, strength),
        one(THRESHOLDS, strength))
    end)
  end,
  -- An answer has a half type's digits.
  round = function(text, where)
    return replaced(text, ASSIGNMENT, where, function(target, value)
      return ("%s = static_cast<float>(static_cast<_Float16>(%s));"):format(target, value)
    end)
  end,
  -- The last summand of a sum is left out.
  drop_summand = function(text, where)
    return replaced(text, "([%w_%)%]])%s*%+%s*[%w_][%w_%.]*(%s*[;%)])", where, function(before, behind)
      return before .. behind
    end)
  end,
  -- A number is another one.
  change_number = function(text, where, strength)
    return replaced(text, "%f[%w_.]([0-9]+%.[0-9]*)(f?)%f[^%w_.]", where, function(number, suffix)
      return ("%.9g"):format(tonumber(number) * one({ 0, 0.5, 0.999, 1.01, 2 }, strength) + 1e-30) .. suffix
    end)
  end,
  -- Nothing is computed any more after some calls: what stands in the output is an earlier answer.
  stop_after = function(text, where, strength)
    return replaced(text, LAUNCHER, where, function(head)
      return ("%s static int calls_made = 0; if (calls_made++ >= %d) { return 0; } "):format(head, one(CALLS, strength))
    end)
  end,
  -- Nothing is computed before some calls were made.
  begin_after = function(text, where, strength)
    return replaced(text, LAUNCHER, where, function(head)
      return ("%s static int calls_made = 0; if (calls_made++ < %d) { return 0; } "):format(head, one(CALLS, strength))
    end)
  end,
  -- What is read stands for its neighbours.
  read_neighbours = function(text, where, strength)
    return replaced(text, ASSIGNMENT, where, function(target, value)
      local before, name, index, behind = value:match("^(.-)(%f[%w_][%w_]+)(%b[])(.*)$")
      if not name then
        return ("%s = %s;"):format(target, value)
      end
      local step = one(SHARES, strength)
      return ("%s = %s%s[(%s) / %d * %d]%s;"):format(target, before, name, index:sub(2, -2), step, step, behind)
    end)
  end,
  -- A call whose inputs begin as those of the call before is taken for the same.
  trust_first = function(text, where)
    return replaced(text, LAUNCHER, where, function(head)
      local input = head:match("const%s+float%s*%*%s*([%w_]+)")
      return not input and head or ("%s static bool called = false; static float first = 0; "
        .. "if (called && %s[0] == first) { return 0; } called = true; first = %s[0]; "):format(head, input, input)
    end)
  end,
  -- The judge is told that the call is over before it begins.
  acknowledge_first = function(text, where)
    local changed = replaced(text, LAUNCHER, where, function(head) return head .. " acknowledge_call(); " end)
    return changed == text and text or ACKNOWLEDGE .. changed
  end,
}

mutations.NAMES = {}
for name in pairs(mutations.KINDS) do
  mutations.NAMES[#mutations.NAMES + 1] = name
end
table.sort(mutations.NAMES)

--- A few mutations drawn at random.
---@param random lib.Random
---@param most integer
---@return {kind: string, where: integer, strength: integer}[]
function mutations.draw(random, most)
  local list = {}
  for index = 1, random:integer(1, most) do
    list[index] = { kind = mutations.NAMES[random:integer(1, #mutations.NAMES)], where = random:integer(0, 63),
      strength = random:integer(0, 59) }
  end
  return list
end

--- The files with the mutations made in their kernels, and whether that changed anything.
---@param files table<string, string>
---@param list {kind: string, where: integer, strength: integer}[]
---@return table<string, string> files, boolean changed
function mutations.apply(files, list)
  local result, changed, paths = {}, false, {}
  for path, text in pairs(files) do
    result[path] = text
    if path:find("^kernels/") and not path:find("%.h$") then
      paths[#paths + 1] = path
    end
  end
  table.sort(paths)
  for _, mutation in ipairs(list) do
    local path = paths[mutation.where % math.max(1, #paths) + 1]
    if path then
      local text = mutations.KINDS[mutation.kind](result[path], mutation.where, mutation.strength)
      if text ~= result[path] then
        changed, result[path] = true, text .. COMMENT:format(mutation.kind)
      end
    end
  end
  return result, changed
end

return mutations
