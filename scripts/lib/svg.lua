-- Small line charts as inline SVG, for pages that must stand alone.

local terminal = require "khost.terminal"

local svg = {}

local WIDTH, HEIGHT = 320, 170
local LEFT, RIGHT, TOP, BOTTOM = 52, 10, 26, 22

local ENTITIES = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;", ["'"] = "&#39;" }

--- Text of strangers that may stand in HTML and SVG, in an attribute too: no markup, no control characters and no marks
--- of direction.
---@param text string
---@return string
function svg.escape(text)
  return (terminal.plain(text):gsub("[&<>\"']", ENTITIES))
end

local function label(value)
  return ("%.3g"):format(value)
end

-- The finite points and the box around them.
local function extent(points)
  local kept, box = {}, { math.huge, -math.huge, math.huge, -math.huge }
  for _, point in ipairs(points) do
    local x, y = point[1], point[2]
    if x == x and y == y and math.abs(y) < math.huge then
      kept[#kept + 1] = point
      box = { math.min(box[1], x), math.max(box[2], x), math.min(box[3], y), math.max(box[4], y) }
    end
  end
  return kept, box
end

--- One curve with its title, the range of both axes and a dot for every point when there are few.
---@param title string
---@param points { [1]: number, [2]: number }[]
---@return string
function svg.curve(title, points)
  local kept, box = extent(points)
  local out = {
    ('<svg viewBox="0 0 %d %d" role="img" font-family="system-ui, sans-serif" font-size="11">'):format(WIDTH, HEIGHT),
    ('<text x="%d" y="15" font-size="12.5" font-weight="600">%s</text>'):format(LEFT - 44, svg.escape(title)),
  }
  if #kept == 0 then
    out[#out + 1] = '<text x="60" y="90" fill="#888">no finite values</text></svg>\n'
    return table.concat(out)
  end
  local x0, x1, y0, y1 = box[1], box[2], box[3], box[4]
  -- A constant curve lies in the middle.
  if y1 == y0 then
    local pad = math.abs(y0) * 0.1 + 1e-9
    y0, y1 = y0 - pad, y1 + pad
  end
  local function place(point)
    local x = x1 == x0 and 0.5 or (point[1] - x0) / (x1 - x0)
    local y = (point[2] - y0) / (y1 - y0)
    return LEFT + x * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - y * (HEIGHT - TOP - BOTTOM)
  end
  out[#out + 1] = ('<path d="M%d %dV%dH%d" fill="none" stroke="#bbb"/>'):format(LEFT, TOP, HEIGHT - BOTTOM,
    WIDTH - RIGHT)
  for _, tick in ipairs { { y1, TOP + 8 }, { y0, HEIGHT - BOTTOM } } do
    out[#out + 1] = ('<text x="%d" y="%d" text-anchor="end" fill="#666">%s</text>'):format(LEFT - 5, tick[2],
      label(tick[1]))
  end
  out[#out + 1] = ('<text x="%d" y="%d" fill="#666">%s</text>'):format(LEFT, HEIGHT - 6, label(x0))
  out[#out + 1] = ('<text x="%d" y="%d" text-anchor="end" fill="#666">%s</text>'):format(WIDTH - RIGHT, HEIGHT - 6,
    label(x1))
  local path, dots = {}, {}
  for index, point in ipairs(kept) do
    local x, y = place(point)
    path[index] = ("%s%.1f %.1f"):format(index == 1 and "M" or "L", x, y)
    dots[index] = ('<circle cx="%.1f" cy="%.1f" r="2" fill="#2563eb"/>'):format(x, y)
  end
  out[#out + 1] = ('<path d="%s" fill="none" stroke="#2563eb" stroke-width="1.6"/>'):format(table.concat(path))
  if #kept <= 40 then
    out[#out + 1] = table.concat(dots)
  end
  out[#out + 1] = "</svg>\n"
  return table.concat(out)
end

return svg
