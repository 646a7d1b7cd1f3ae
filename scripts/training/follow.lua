-- What a rank other than the first does: what rank 0 says (training.trainer), until that ends. It plays nothing, reads
-- no store and writes nothing; the folders of models are read from where rank 0 reads them.

local json = require "khost.json"
local trainer = require "khost.trainer"

local follow = {}

local commands = {}

-- Whatever fails here has succeeded on rank 0 or is about to: this rank has fallen out of step and ends.
local function need(what, value, message)
  if value == nil then
    error(("%s: %s"):format(what, tostring(message)), 0)
  end
  return value
end

function commands.open(self, c)
  self[c.id] = need(tostring(c.options.model), trainer.open(c.options))
end

function commands.critic(self, c)
  self[c.id] = self[c.of]:critic()
end

function commands.update(self, c)
  need("update", self[c.trainer]:update(self[c.batch], trainer[c.kind](c.objective), c.options))
end

function commands.save(self, c)
  need(c.folder, self[c.trainer]:save(c.folder))
end

function commands.load(self, c)
  need(c.folder, self[c.trainer]:load(c.folder, c.options))
end

function commands.close(self, c)
  self[c.trainer]:close()
end

function commands.episodes(self, c)
  local list = self[c.id] or {}
  for _, one in ipairs(c.episodes) do
    list[#list + 1] = one
  end
  self[c.id] = list
end

function commands.pack(self, c)
  self[c.id] = trainer.pack(self[c.id], c.options)
end

function commands.fill(self, c)
  need("fill", self[c.batch]:fill(c.column, c.source or self[c.trainer]))
end

function commands.advantages(self, c)
  need("advantages", self[c.batch]:advantages(c.options))
end

function commands.split(self, c)
  local at = 0
  for part in self[c.batch]:split(c.trajectories, c.epochs, c.options) do
    at = at + 1
    self[c.ids[at]] = part
  end
end

function commands.select(self, c)
  self[c.id] = self[c.batch]:select(c.trajectories)
end

function commands.evaluate(self, c)
  need("evaluate", self[c.batch]:evaluate(self[c.trainer]))
end

function commands.still() end

function commands.rest() end

--- Follows rank 0 until it ends. An end that was not announced raises.
---@async
function follow.run()
  local objects, resting = {}, false
  while true do
    local text, message = trainer.tell()
    if not text and resting then
      return
    end
    local command = json.decode(need("rank 0", text, message))
    for _, id in ipairs(command.forget or {}) do
      objects[id] = nil
    end
    resting = command.op == "rest" or resting and command.op == "still"
    commands[command.op](objects, command)
  end
end

return follow
