-- How long a server asks to be left alone: Retry-After, in seconds or as a date of HTTP, or retry-after-ms.

local wait = {}

local MONTHS = { Jan = 1, Feb = 2, Mar = 3, Apr = 4, May = 5, Jun = 6, Jul = 7, Aug = 8, Sep = 9, Oct = 10, Nov = 11,
  Dec = 12 }

-- Days since 1970 of a date (the proleptic Gregorian calendar, eras of 400 years that begin in March).
local function days(year, month, day)
  year = month <= 2 and year - 1 or year
  local era = math.floor(year / 400)
  local of_era = year - era * 400
  local of_year = math.floor((153 * (month + (month > 2 and -3 or 9)) + 2) / 5) + day - 1
  return era * 146097 + of_era * 365 + math.floor(of_era / 4) - math.floor(of_era / 100) + of_year - 719468
end

--- Seconds since 1970 of a date as HTTP writes it ("Sun, 06 Nov 1994 08:49:37 GMT"); nil for anything else.
---@param text string
---@return number|nil
function wait.date(text)
  local day, name, year, hour, minute, second = text:match(
    "^%s*%a+, (%d%d?) (%a%a%a) (%d%d%d%d) (%d%d):(%d%d):(%d%d) GMT%s*$")
  local month = MONTHS[name]
  if not month then
    return nil
  end
  return days(tonumber(year), month, tonumber(day)) * 86400 + tonumber(hour) * 3600 + tonumber(minute) * 60
    + tonumber(second)
end

--- Seconds from now, at least 0; nil when the headers ask for nothing that can be read. The server's own date counts
--- as now where it gives one: its clock may differ from ours.
---@param headers table<string, string>   names in lower case
---@param now number                      seconds since 1970
---@return number|nil
function wait.seconds(headers, now)
  local milliseconds = tonumber((headers["retry-after-ms"] or ""):match("^%s*(%d+%.?%d*)%s*$"))
  if milliseconds then
    return milliseconds / 1000
  end
  local text = headers["retry-after"]
  if not text then
    return nil
  end
  local seconds = text:find("^%s*%d+%.?%d*%s*$") and tonumber(text)
  if not seconds then
    local at = wait.date(text)
    seconds = at and at - (headers.date and wait.date(headers.date) or now)
  end
  return seconds and math.max(seconds, 0)
end

return wait
