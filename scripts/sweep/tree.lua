-- Which stages the arms of a sweep share. Two arms share a stage when everything that it and the stages before it can
-- read is equal: the configuration, the seed and the scripts. Stages that are shared by the same arms make one node,
-- which is one run; the runs of its children are forks of it.

local fs = require "khost.fs"
local json = require "khost.json"

local tree = {}

-- The first stage that reads a section of the preset, or a key of it that is read earlier than the others. A section
-- that stands in neither list counts from the first stage on, so that a section nobody thought of costs time and never
-- a wrong table.
tree.FIRST_USE = {
  reward = "base", validate = "base", supervised = "supervised", dialogues = "supervised", ppo = "single_turn",
  single_turn = "single_turn", collect = "collect", rft = "rft", value = "value", agentic = "agentic",
  evaluate = "evaluate",
  ["ppo.temperature"] = "base", ["ppo.pack_tokens"] = "supervised", ["single_turn.answer_tokens"] = "base",
}
local UNUSED = { plan = true }  -- costs for `--plan`

--- The stage that reads a key of the preset first; nil where no list names it.
---@param section string
---@param key? string
---@return string|nil
function tree.first_use(section, key)
  return key and tree.FIRST_USE[section .. "." .. key] or tree.FIRST_USE[section]
end

-- What a stage reads for the first time, given the stages before it: "section.key=value" in order.
local function news_of(config, stages, at)
  local known, news = {}, {}
  for _, name in ipairs(stages) do
    known[name] = true
  end
  for section, keys in pairs(config) do
    for key, value in pairs(UNUSED[section] and {} or keys) do
      local first = tree.first_use(section, key)
      if (known[first] and first or stages[1]) == stages[at] then
        news[#news + 1] = ("%s.%s=%s"):format(section, key, json.encode(value))  -- sorts the keys of tables
      end
    end
  end
  table.sort(news)
  return news
end

--- The key of every stage: a hash over its name, what it reads for the first time, and the key of the stage before it.
---@param config table    merged configuration, plain
---@param seed integer
---@param stages string[]
---@param sources string  hash of the scripts
---@return string[]
function tree.keys(config, seed, stages, sources)
  local keys, before = {}, fs.sha256(("%s %d"):format(sources, seed))
  for at, name in ipairs(stages) do
    before = fs.sha256(table.concat({ before, name, unpack(news_of(config, stages, at)) }, "\n"))
    keys[at] = before
  end
  return keys
end

-- Every Lua file below a folder.
local function scripts_below(folder, found)
  for _, name in ipairs(assert(fs.list(folder))) do
    if name:sub(-1) == "/" then
      scripts_below(folder .. "/" .. name:sub(1, -2), found)
    elseif name:find("%.lua$") then
      found[#found + 1] = folder .. "/" .. name
    end
  end
  return found
end

--- Hash of all scripts that a run can load, but for recipes: these only arrange stages.
---@return string
function tree.sources()
  local root, found, parts = fs.root(), {}, {}
  for _, folder in ipairs { "/scripts", "/recipes/stages", "/tools" } do
    scripts_below(root .. folder, found)
  end
  table.sort(found)
  for index, path in ipairs(found) do
    parts[index] = path:sub(#root + 1) .. " " .. fs.sha256(assert(fs.read(path)))
  end
  return fs.sha256(table.concat(parts, "\n"))
end

---@class (exact) SweepCell
---@field arm string
---@field seed integer
---@field config table
---@field keys string[]   of its stages

---@class (exact) SweepNode
---@field key string          of its last stage
---@field parent SweepNode|nil
---@field stages string[]
---@field cells SweepCell[]   whose runs begin with it

-- Groups of cells by their key of a stage, in the order of first appearance.
local function grouped(cells, at)
  local groups, by_key = {}, {}
  for _, cell in ipairs(cells) do
    local key = cell.keys[at]
    if not by_key[key] then
      by_key[key] = { key = key }
      groups[#groups + 1] = by_key[key]
    end
    table.insert(by_key[key], cell)
  end
  return groups
end

--- The nodes of a sweep, parents before their children.
---@param cells SweepCell[]
---@param stages string[]
---@return SweepNode[]
function tree.nodes(cells, stages)
  local nodes = {}
  local function grow(parent, group, from)
    local node, at = { parent = parent, stages = {}, cells = group, key = group.key }, from
    nodes[#nodes + 1] = node
    while stages[at] do
      local groups = grouped(group, at)
      if #groups > 1 then
        for _, part in ipairs(groups) do
          grow(node, part, at)
        end
        return
      end
      node.stages[#node.stages + 1], node.key, at = stages[at], groups[1].key, at + 1
    end
  end
  for _, group in ipairs(grouped(cells, 1)) do
    grow(nil, group, 1)
  end
  return nodes
end

return tree
