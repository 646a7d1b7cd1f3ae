---@meta khost.serve
-- A service's ends: an HTTP/1.1 listener, lines on standard input and output, and the signal that ends it. What is
-- answered to whom is decided in scripts/serve/.

local serve = {}

--- khost's own version, "0.1.0".
---@type string
serve.version = ""

---@class khost.Listener
local Listener = {}

---@class khost.Exchange
local Exchange = {}

---@class khost.Lines
local Lines = {}

---@class (exact) khost.ListenOptions
---@field address? string        numeric; "127.0.0.1"
---@field port? integer          0, a free one, when absent
---@field connections? integer   open at once (256); one more is answered 503
---@field peer_connections? integer   of them from one address; 0 (as many as all) when absent
---@field header_bytes? integer  of request line and header fields together (16384); more is answered 431
---@field header_s? number       until a header has arrived (10); later is answered 408
---@field body_s? number         until a body has arrived (60)
---@field write_s? number        until an answer was written (60)
---@field idle_s? number         between two requests of a connection (60)

--- Begins to accept connections. Raises for options outside their ranges; code "bad_input" for an address that is none,
--- "io" where it cannot be bound.
---@param options? khost.ListenOptions
---@return khost.Listener|nil, string? message, string? code
function serve.listen(options) end

--- Speaks on standard input and output. As long as the object lives, what else this process prints on standard output
--- goes to standard error.
---@return khost.Lines|nil, string? message, string? code
function serve.lines() end

--- Waits for the first SIGINT or SIGTERM, which then does not cancel the script. The second one does.
---@async
---@return true
function serve.interrupted() end

---@return integer
function Listener:port() end

--- The next request whose header was read; its body was not. Code "gone" once the listener is closed.
---@async
---@return khost.Exchange|nil, string? message, string? code
function Listener:take() end

--- Accepts nothing more; connections without a request in work are closed, the others after their answer.
function Listener:close() end

---@return {accepted: number, turned_away: number, open: number}
function Listener:counts() end

--- Header names in lower case; fields that stand twice are joined by ", ".
---@return {method: string, target: string, headers: table<string, string>, peer: string}
function Exchange:head() end

--- Reads the body, once. Codes: limit (announced or sent more than most_bytes), timeout, gone, bad_input (no HTTP).
---@async
---@param most_bytes number
---@return string|nil, string? message, string? code
function Exchange:body(most_bytes) end

--- The one answer; false where the peer did not take it. Raises for a second one. A request that is dropped without an
--- answer is answered 500.
---@async
---@param status integer
---@param headers table<string, string>
---@param body string
---@return boolean
function Exchange:answer(status, headers, body) end

--- Whether the peer closed its sending side, or the connection is broken.
---@return boolean
function Exchange:gone() end

--- The next line without its end. Codes: gone (the input ended), limit (longer than most_bytes), busy, io.
---@async
---@param most_bytes number
---@return string|nil, string? message, string? code
function Lines:read(most_bytes) end

--- Writes text as it is. Code "gone" when nobody reads.
---@async
---@param text string
---@return true|nil, string? message, string? code
function Lines:write(text) end

return serve
