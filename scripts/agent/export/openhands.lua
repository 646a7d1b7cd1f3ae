-- Trajectories as events of OpenHands' SDK. Unknown fields are forbidden there, so only its own are written;
-- our tools are not known there either, so calls and results are of the kinds that hold any tool's data.

local json = require "khost.json"

local openhands = {}

local function text_content(text)
  return { type = "text", text = text, cache_prompt = false }
end

local function stamp(seconds)
  -- Civil date from days since 1970 (the proleptic Gregorian calendar, eras of 400 years).
  local days = math.floor(seconds / 86400)
  local rest = seconds - days * 86400
  local z = days + 719468
  local era = math.floor(z / 146097)
  local doe = z - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local mp = math.floor((5 * doy + 2) / 153)
  local day = doy - math.floor((153 * mp + 2) / 5) + 1
  local month = mp < 10 and mp + 3 or mp - 9
  local year = yoe + era * 400 + (month <= 2 and 1 or 0)
  return ("%04d-%02d-%02dT%02d:%02d:%09.6f"):format(year, month, day, math.floor(rest / 3600),
    math.floor(rest / 60) % 60, rest % 60)
end

openhands.stamp = stamp

local function message_event(event, source, role, message)
  event.kind, event.source = "MessageEvent", source
  event.llm_message = { role = role, content = { text_content(message.content) }, reasoning_content = message.thought }
  return event
end

--- Events of a list of messages.
---@param list table[]      agent.export.messages
---@param trajectory table
---@return table[]
function openhands.write(list, trajectory)
  local events, actions, clock = {}, {}, trajectory.time_s or 0
  local function event()
    clock = clock + 1
    local one = { id = ("khost-%s-%d"):format(tostring(trajectory.id or 0), #events + 1), timestamp = stamp(clock) }
    events[#events + 1] = one
    return one
  end
  for index, message in ipairs(list) do
    if message.role == "system" then
      local one = event()
      one.kind, one.source, one.system_prompt, one.tools = "SystemPromptEvent", "agent", text_content(message.content),
        json.list {}
    elseif message.role == "tool" then
      local one = event()
      one.kind, one.source, one.tool_name, one.tool_call_id = "ObservationEvent", "environment", message.name,
        message.call_id
      one.action_id = actions[message.call_id]
      one.observation = { kind = "MCPToolObservation", tool_name = message.name,
        content = { text_content(message.content) },
        is_error = false }
    elseif message.role == "assistant" and message.calls then
      for place, call in ipairs(message.calls) do
        local one = event()
        actions[call.id] = one.id
        one.kind, one.source, one.tool_name, one.tool_call_id = "ActionEvent", "agent", call.name, call.id
        one.thought = json.list(place == 1 and message.content ~= "" and { text_content(message.content) } or {})
        one.reasoning_content = place == 1 and message.thought or nil
        one.action = { kind = "MCPToolAction", data = next(call.arguments) and call.arguments or json.decode("{}") }
        one.tool_call = { id = call.id, name = call.name, origin = "completion",
          arguments = json.encode(next(call.arguments) and call.arguments or json.decode("{}")) }
        one.llm_response_id = ("khost-%s-response-%d"):format(tostring(trajectory.id or 0), index)
      end
    else
      message_event(event(), message.role == "assistant" and "agent" or "user", message.role, message)
    end
  end
  return events
end

local function joined(parts)
  local texts = {}
  for index, part in ipairs(type(parts) == "table" and parts or {}) do
    texts[index] = part.text or ""
  end
  return table.concat(texts)
end

--- Back from events. Calls of one response become one message; kinds that are not ours to know are left out and named.
---@param events table[]
---@return table[] messages, string[] unknown
function openhands.read(events)
  local list, unknown, response = {}, {}, nil
  local results = {}
  local function flush()
    for _, result in ipairs(results) do
      list[#list + 1] = result
    end
    results, response = {}, nil
  end
  for _, event in ipairs(events) do
    if event.kind == "ActionEvent" then
      local message = list[#list]
      if not response or response ~= event.llm_response_id then
        flush()
        message = { role = "assistant", content = joined(event.thought), thought = event.reasoning_content, calls = {} }
        list[#list + 1] = message
        response = event.llm_response_id
      end
      local arguments = json.decode(event.tool_call.arguments)
      table.insert(message.calls, { id = event.tool_call_id, name = event.tool_name,
        arguments = type(arguments) == "table" and arguments or {}, label = type(arguments) ~= "table"
          and "malformed_call" or nil })
    elseif event.kind == "ObservationEvent" or event.kind == "AgentErrorEvent" then
      results[#results + 1] = { role = "tool", call_id = event.tool_call_id, name = event.tool_name,
        content = event.error or joined(event.observation.content) }
    elseif event.kind == "SystemPromptEvent" then
      flush()
      list[#list + 1] = { role = "system", content = event.system_prompt.text }
    elseif event.kind == "MessageEvent" then
      flush()
      list[#list + 1] = { role = event.llm_message.role, content = joined(event.llm_message.content),
        thought = event.llm_message.reasoning_content }
    else
      unknown[#unknown + 1] = tostring(event.kind)
    end
  end
  flush()
  return list, unknown
end

return openhands
