---@meta khost.http
-- Requests to servers that others run, such as those of language models. No redirect is followed and nothing is tried
-- again: that is the caller's to decide. Nothing of a request is ever logged.

local http = {}

---@class (exact) khost.HttpRequest
---@field url string                        http or https
---@field method? string                    GET when absent
---@field headers? table<string, string>
---@field body? string
---@field timeout_s? number                 of the whole request; 600 when absent
---@field connect_s? number                 10 when absent
---@field idle_s? number                    without a byte for so long it fails; whole seconds; never when absent
---@field most_bytes? number                of the answer; 64 MiB when absent
---@field stop_at? string                   text in the answer behind which nothing is read ("data: [DONE]")
---@field into? string                      file that takes the body of an answer 200 from its beginning and of an
---                                         answer 206 at its end; most_bytes is then the file's, and what came before
---                                         a failure stays in it

---@class (exact) khost.HttpAnswer
---@field status integer
---@field headers table<string, string>     names in lower case; of several with one name the last
---@field body string
---@field seconds number

--- Waits for the answer, whatever its status. Failures: "connect", "timeout" (also idle_s), "io" (the connection was
--- cut), "limit" (most_bytes), "bad_input" (the url), "file" (`into` cannot be written, or the range that the server sends
--- does not begin where it ends).
---@async
---@param request khost.HttpRequest
---@return khost.HttpAnswer|nil answer, string? message, string? code
function http.request(request) end

return http
