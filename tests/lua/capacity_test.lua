-- The simulation of capacity against results that are known: closed networks with exponential times, and fixed times.
local random = require "lib.random"
local recipe = require "recipes.capacity"
local simulate = require "capacity.simulate"
local events = require "capacity.events"
local t = require "tests.lua.harness"
local times = require "capacity.times"

local spec = {}

local function fixed(value) return function() return value end end
local function never() return false end
local function near(got, expected, share, what)
  t.is_true(math.abs(got - expected) <= share * expected, ("%s is %g, expected %g"):format(what, got, expected))
end

-- Of K customers that think for Z and are served by c servers for S, both exponential: the throughput, from the balance
-- equations of the birth-death chain of those that wait or are served (the machine-repair model).
local function repair(customers, servers, think_s, service_s)
  local weight, sum, busy = 1, 1, 0
  for n = 1, customers do
    weight = weight * (customers - n + 1) / think_s / (math.min(n, servers) / service_s)
    sum, busy = sum + weight, busy + weight * math.min(n, servers)
  end
  return busy / sum / service_s
end

-- One turn an episode, so that an episode is one round of the network.
local function network(customers, servers, think_s, service_s, episodes)
  local stream = random.stream "capacity"
  return simulate.run { episodes = episodes, concurrent = customers, turns = fixed(1), request = never,
    draw = times.exponential(stream, think_s), build = fixed(0), verify = fixed(0), builders = customers,
    time = times.exponential(stream, service_s), cards = servers }
end

function spec.throughput_and_utilisation_are_those_of_the_machine_repair_model()
  for _, case in ipairs { { 1, 1, 3, 2 }, { 6, 1, 10, 2 }, { 20, 3, 5, 1 }, { 40, 4, 10, 1 }, { 64, 2, 10, 1 } } do
    local customers, servers, think_s, service_s = unpack(case)
    local expected = repair(customers, servers, think_s, service_s)
    local got = network(customers, servers, think_s, service_s, 60000)
    near(got.episodes_h / 3600, expected, 0.02, "throughput")
    near(got.cards.utilisation, expected * service_s / servers, 0.02, "utilisation")
    -- Little's law: customers are throughput times the time of a round.
    near(got.episodes_h / 3600 * got.episode_s, customers, 0.01, "customers")
  end
end

function spec.fixed_times_give_the_bound_of_the_bottleneck()
  local function run(cards, builders)
    return simulate.run { episodes = 4000, concurrent = 40, turns = fixed(3), draw = fixed(2),
      request = fixed(true), build = fixed(1), verify = fixed(0.5), time = fixed(3), cards = cards,
      builders = builders }
  end
  -- Of an episode: 6 s of drawing, 3 of builds, 4 on a card.
  near(run(40, 40).episodes_h, 40 / 13 * 3600, 0.01, "without a queue")
  near(run(4, 40).episodes_h, 4 / 4 * 3600, 0.01, "bound by cards")
  near(run(40, 3).episodes_h, 3 / 3 * 3600, 0.01, "bound by builders")
  t.is_true(run(4, 40).cards.utilisation > 0.99 and run(4, 40).builders.utilisation < 0.2)
end

function spec.steps_wait_for_their_last_episode_and_the_update()
  local at = 0
  local got = simulate.run { episodes = 30, concurrent = 10, turns = function()
    at = at + 1
    return at % 10 == 0 and 5 or 1
  end, draw = fixed(1), request = never, build = fixed(0), verify = fixed(0), time = fixed(0), cards = 10,
    builders = 10, update_s = 7 }
  t.expect({ got.seconds, got.turns }, { 3 * 5 + 2 * 7, 3 * 14 })
end

function spec.events_come_in_their_order()
  local stream, heap, last = random.stream "events", events.new(), -1
  for index = 1, 2000 do heap:put(stream:integer(1, 50), index, 1) end
  local before = 0
  for _ = 1, 2000 do
    local time, who = heap:take()
    t.is_true(time > last or time == last and who > before)
    last, before = time, who
  end
  t.expect(heap:take(), nil)
end

function spec.the_recipe_refuses_what_it_cannot_simulate()
  for words, part in pairs { ["--episodes 100001"] = "at most 100000", ["--cards 2000"] = "from 1 to 1024",
    ["--concurrent 0"] = "at least 1", ["--builders 1.5"] = "whole number", ["--run no-such-run-is-there"] = "--run" } do
    local list = {}
    for word in words:gmatch "%S+" do list[#list + 1] = word end
    local ok, message = pcall(recipe.run, list)
    t.is_true(not ok and tostring(message):find(part, 1, true), tostring(message))
  end
end

return spec
