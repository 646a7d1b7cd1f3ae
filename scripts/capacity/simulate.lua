-- Simulates episodes on a cluster: each turn draws tokens, some turns ask the judge, which builds on one of the
-- builders and then holds one of the cards; at the end stands a verdict that is timed. Drawing is not a queue here: an
-- engine that slows down under load is given with the seconds that it takes under load.

local events = require "capacity.events"
local sched = require "khost.sched"
local station = require "capacity.station"

local simulate = {}

local DRAWN, BUILT, JUDGED, UPDATED = 1, 2, 3, 4  -- what events say
local AT_ONCE = 100000  -- events until others get their turn

---@class (exact) Load
---@field episodes integer     in all
---@field concurrent integer   at the same time; a new one begins where one ends
---@field turns fun(): integer       of an episode
---@field draw fun(): number         seconds of drawing and tools of a turn
---@field request fun(): boolean     whether a turn asks the judge
---@field build fun(): number        seconds of a build
---@field verify fun(): number       seconds for which a verification holds a card
---@field time fun(): number         seconds for which a timed verdict holds one
---@field builders integer
---@field cards integer
---@field update_s? number     with it episodes go in steps of `concurrent`, with an update of so many seconds between

local Run = {}
Run.__index = Run

local function begin_episode(self, who)
  self.begun = self.begun + 1
  self.left[who], self.from[who] = self.load.turns(), self.now
  self.events:put(self.now + self.load.draw(), who, DRAWN)
end

local function work_of(self, who)
  return self.left[who] > 0 and self.load.verify() or self.load.time()
end

local function to_cards(self, who)
  local seconds = work_of(self, who)
  if self.cards:arrive(self.now, who, seconds) then
    self.events:put(self.now + seconds, who, JUDGED)
  end
end

local function to_builders(self, who)
  local seconds = self.load.build()
  if self.builders:arrive(self.now, who, seconds) then
    self.events:put(self.now + seconds, who, BUILT)
  end
end

local function begin_step(self)
  for place = 1, math.min(self.load.concurrent, self.load.episodes - self.begun) do
    begin_episode(self, place)
  end
end

local function end_episode(self, who)
  self.ended, self.episode_s = self.ended + 1, self.episode_s + self.now - self.from[who]
  if not self.load.update_s then
    if self.begun < self.load.episodes then
      begin_episode(self, who)
    end
  elseif self.ended == self.begun and self.begun < self.load.episodes then
    self.events:put(self.now + self.load.update_s, 0, UPDATED)
  end
end

local HANDLERS = {
  [DRAWN] = function(self, who)
    self.left[who], self.turns = self.left[who] - 1, self.turns + 1
    if self.left[who] == 0 or self.load.request() then
      to_builders(self, who)
    else
      self.events:put(self.now + self.load.draw(), who, DRAWN)
    end
  end,
  [BUILT] = function(self, who)
    local next_one, seconds = self.builders:leave(self.now, self.load.build)
    if next_one then
      self.events:put(self.now + seconds, next_one, BUILT)
    end
    to_cards(self, who)
  end,
  [JUDGED] = function(self, who)
    local next_one, seconds = self.cards:leave(self.now, function(other) return work_of(self, other) end)
    if next_one then
      self.events:put(self.now + seconds, next_one, JUDGED)
    end
    if self.left[who] == 0 then
      end_episode(self, who)
    else
      self.events:put(self.now + self.load.draw(), who, DRAWN)
    end
  end,
  [UPDATED] = begin_step,
}

---@class (exact) Simulated
---@field seconds number          until the last episode ended
---@field episodes_h number       episodes an hour
---@field turns integer
---@field episode_s number        mean of an episode
---@field builders table          station.summary
---@field cards table

--- Plays the load to its end.
---@async
---@param load Load
---@return Simulated
function simulate.run(load)
  local self = setmetatable({ load = load, events = events.new(), builders = station.new(load.builders),
    cards = station.new(load.cards), now = 0, begun = 0, ended = 0, turns = 0, episode_s = 0, left = {}, from = {} },
    Run)
  begin_step(self)
  local count = 0
  while true do
    local time, who, what = self.events:take()
    if not time then
      break
    end
    self.now, count = time, count + 1
    HANDLERS[what](self, who)
    if count % AT_ONCE == 0 then
      sched.sleep(0)
    end
  end
  return { seconds = self.now, episodes_h = self.ended / self.now * 3600, turns = self.turns,
    episode_s = self.episode_s / self.ended, builders = self.builders:summary(self.now),
    cards = self.cards:summary(self.now) }
end

return simulate
