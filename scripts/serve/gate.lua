-- What a request must be before its body is read: sent to a name of this service, by no page of a browser, without an
-- encoding, and by a client whose token has the right. Everything here sees the header alone.

local gate = {}

local MOST_TARGET = 2048  -- bytes

--- A refusal: a status, a short stable word, a sentence for people, header fields.
---@param status integer
---@param code string
---@param message string
---@param headers? table<string, string>
---@return table
function gate.refusal(status, code, message, headers)
  return { status = status, code = code, message = message, headers = headers or {} }
end

--- Hosts that a request may name: loopback's, and those that the service was given. The port is not looked at: what a
--- page of a browser cannot choose is the name.
---@param names string[]
---@return table<string, true>
function gate.hosts(names)
  local set = { ["127.0.0.1"] = true, localhost = true, ["[::1]"] = true }
  for _, name in ipairs(names) do
    set[name:lower()] = true
  end
  return set
end

local function host_of(field)
  local name, port = field:lower():match("^(%[[%x:%.]+%])(.*)$")
  if not name then
    name, port = field:lower():match("^([%w%.%-_]+)(.*)$")
  end
  return name and (port == "" or port:find("^:%d+$")) and name or nil
end

--- The path and the query of a target; nil for what is no path or too long.
---@param target string
---@return string|nil path, table<string, string>|nil query
function gate.target(target)
  if #target > MOST_TARGET or not target:find("^/") or target:find("[%c\127-\255]") then
    return nil
  end
  local path, text = target:match("^([^?]*)%??(.*)$")
  local query = {}
  for part in text:gmatch("[^&]+") do
    local name, value = part:match("^([%w_]+)=([%w_%-%.]*)$")
    if not name then
      return nil
    end
    query[name] = value
  end
  return path, query
end

--- Checks what holds for every route.
---@param head table   khost.Exchange:head()
---@param hosts table<string, true>
---@return table|nil refusal
function gate.check(head, hosts)
  local host = head.headers.host and host_of(head.headers.host)
  if not host then
    return gate.refusal(400, "bad_host", "a Host header with one name and perhaps a port is needed")
  elseif not hosts[host] then
    return gate.refusal(421, "foreign_host", "this service does not go by the name in the Host header; "
      .. "its names are given at its start by --name")
  elseif head.headers.origin or head.headers["sec-fetch-site"] then
    return gate.refusal(403, "foreign_origin", "pages of a browser are not served: the request has an Origin")
  end
  local encoding = head.headers["content-encoding"]
  if encoding and encoding:lower() ~= "identity" then
    return gate.refusal(415, "encoded_body", "bodies are read as they are: send it without a Content-Encoding")
  end
end

--- Who asks, where they have the right to.
---@param head table
---@param clients table   serve.clients
---@param right string
---@return ServeClient|nil client, table? refusal
function gate.client(head, clients, right)
  local client = clients:find(head.headers.authorization)
  if not client then
    return nil, gate.refusal(401, "bad_token", "a token is needed: Authorization: Bearer TOKEN",
      { ["www-authenticate"] = "Bearer" })
  elseif not client.rights[right] then
    return nil, gate.refusal(403, "no_right", ("this token lacks the right '%s'"):format(right))
  end
  return client
end

return gate
