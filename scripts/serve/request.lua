-- Reads the bodies of requests. What they say is a stranger's: every field is checked, an unknown one is refused.
--
-- POST /v1/verdict:
--   {"task": HASH or id of a loaded suite, or {"source": TEXT, "name"?: TEXT},
--    "files": {PATH: TEXT, …}  or  "answer": TEXT with files in fenced blocks,
--    "scheme"?: NAME, "measure"?: true, "rules"?: "own" or "mixed"}
--
-- Trainers that post {"prompt", "response", "label"} are understood too: the label is the task, the response the
-- answer.
--
-- POST /v1/feedback:
--   {"kind": "verify", "profile" or "tune", "task": as above, "files": as above, "name", "values": of "tune"}

local client = require "judge.client"
local config = require "khost.config"
local fs = require "khost.fs"
local json = require "khost.json"
local parse = require "agent.parse"
local template = require "run.template"
local tune = require "agent.tune"

local request = {}

request.MOST_BYTES = 8 * 2 ^ 20   -- of a body
local MOST_PARTS = 10000          -- lists, objects and fields of one: a few files, or lists of numbers
local MOST_NAME = 200
local MOST_TASK = 2 ^ 20          -- bytes of a task's text

local FIELDS = {
  verdict = { "task", "files", "answer", "scheme", "measure", "rules", "prompt", "response", "label" },
  feedback = { "kind", "task", "files", "name", "values" },
}
local KINDS = { verify = true, profile = true, tune = true }

local function is_object(value)
  return type(value) == "table" and #value == 0
end

local function checked_files(files)
  if not is_object(files) or not next(files) then
    return nil, "files: an object of paths and texts expected"
  end
  local count = 0
  for path, text in pairs(files) do
    count = count + 1
    if count > parse.MOST_FILES then
      return nil, ("files: more than %d"):format(parse.MOST_FILES)
    elseif type(path) ~= "string" or not parse.legal_path(path) then
      return nil, "files: a path is kernels/NAME or model_new.py, without '..', links or a leading point"
    elseif type(text) ~= "string" then
      return nil, ("files: the text of %s is no text"):format(path)
    end
  end
  return files
end

--- A loaded task, or one that came along where the client may send tasks. A loaded task's own text needs no right.
---@param given any   the field of a body
---@param tasks table   serve.tasks
---@param may_submit boolean
---@return table|nil, string? message, string? code
function request.task(given, tasks, may_submit)
  if type(given) == "string" then
    local found, message = tasks:find(given)
    return found, message and "task: " .. message, "no_task"
  elseif not is_object(given) or type(given.source) ~= "string" then
    return nil, 'task: a hash or an id of a loaded task expected, or {"source": TEXT}', "bad_input"
  elseif #given.source > MOST_TASK then
    return nil, ("task: source has more than %d MiB"):format(MOST_TASK / 2 ^ 20), "bad_input"
  elseif given.name ~= nil and (type(given.name) ~= "string" or #given.name > MOST_NAME or given.name:find "%c") then
    return nil, ("task: name is a text of at most %d bytes without control characters"):format(MOST_NAME), "bad_input"
  end
  for key in pairs(given) do
    if key ~= "source" and key ~= "name" then
      return nil, ("task: unknown field '%s'; source and name are known"):format(tostring(key):sub(1, MOST_NAME)),
        "bad_input"
    end
  end
  local hash = fs.sha256(given.source)
  local loaded = tasks.by_hash[hash]
  if loaded then
    return loaded
  elseif not may_submit then
    return nil, "task: this client may not send texts of tasks, and none of the loaded tasks has this text", "no_right"
  end
  return { id = hash, name = given.name or hash:sub(1, 12), source = given.source, hash = hash, submitted = true }
end

-- The files of a candidate with the headers of the template; nil and why where no folder can hold them.
local function whole(files, skill)
  local all = template.with(files, skill)
  local clash = parse.clash(all)
  if clash then
    return nil, ("files: %s is a file, and a folder of another path"):format(clash)
  end
  return all
end

-- Trainers' names of the same fields.
local function renamed(body)
  if body.response ~= nil and body.answer == nil then
    body.answer, body.task = body.response, body.task or body.label
  end
  return body
end

-- The files of a request; without any, the verdict that needs no judge.
local function candidate_of(body, skill)
  if (body.files ~= nil) == (body.answer ~= nil) then
    return nil, "either files or answer is needed"
  end
  local files, problem
  if body.files ~= nil then
    files, problem = checked_files(body.files)
    if not files then
      return nil, problem
    end
  elseif type(body.answer) ~= "string" then
    return nil, "answer: a text expected"
  else
    local label
    files, label = parse.files(body.answer)
    if files then
      files, label = checked_files(files)
    end
    if files then
      files, label = whole(files, skill)
    end
    if not files then
      return { verdict = client.nothing { label } }
    end
    return { files = files }
  end
  files, problem = whole(files, skill)
  return files and { files = files }, problem
end

--- What is wrong with the fields `scheme` and `measure` of a body; nil for nothing.
---@param body table
---@return string|nil
function request.wrong_choices(body)
  if body.scheme ~= nil and (type(body.scheme) ~= "string" or #body.scheme > MOST_NAME) then
    return "scheme: the name of a reward scheme expected"
  elseif body.measure ~= nil and type(body.measure) ~= "boolean" then
    return "measure: true or false expected"
  elseif body.rules ~= nil and body.rules ~= "own" and body.rules ~= "mixed" then
    return "rules: own or mixed expected"
  end
end

--- The object of a text that has no other fields than these.
---@param text string
---@param fields string[]
---@return table|nil, string? message
function request.object(text, fields)
  local body, message = json.decode(text, MOST_PARTS)
  if not is_object(body) then
    return nil, body == nil and message or "the body is no JSON object"
  end
  local known = {}
  for _, name in ipairs(fields) do
    known[name] = true
  end
  for name in pairs(body) do
    if not known[name] then
      local short = tostring(name):sub(1, MOST_NAME)
      return nil, ("unknown field '%s'; did you mean '%s'?"):format(short, config.nearest(short, fields))
    end
  end
  return body
end

---@class (exact) ReadOptions
---@field tasks table          serve.tasks
---@field may_submit boolean   whether the client may send texts of tasks
---@field target "cpu"|"cuda"

---@class (exact) VerdictRequest
---@field task table
---@field files? table<string, string>
---@field verdict? table     where nothing was handed in: the verdict that needs no judge
---@field scheme? string
---@field measure boolean
---@field rules? "own"|"mixed"

--- Reads the body of POST /v1/verdict.
---@param text string
---@param options ReadOptions
---@return VerdictRequest|nil, string? message, string? code   bad_input, no_task, no_right
function request.verdict(text, options)
  local body, message = request.object(text, FIELDS.verdict)
  if not body then
    return nil, message, "bad_input"
  end
  body = renamed(body)
  local wrong = request.wrong_choices(body)
  if wrong then
    return nil, wrong, "bad_input"
  end
  local task, why, code = request.task(body.task, options.tasks, options.may_submit)
  if not task then
    return nil, why, code
  end
  local candidate, problem = candidate_of(body, template.skill(options.target))
  if not candidate then
    return nil, problem, "bad_input"
  end
  return { task = task, files = candidate.files, verdict = candidate.verdict, scheme = body.scheme,
    measure = body.measure ~= false, rules = body.rules }
end

--- Reads the body of POST /v1/feedback.
---@param text string
---@param options ReadOptions
---@return {kind: string, task: table, files: table<string, string>, name?: any, values?: any}|nil
---@return string? message, string? code
function request.feedback(text, options)
  local body, message = request.object(text, FIELDS.feedback)
  if not body then
    return nil, message, "bad_input"
  elseif not KINDS[body.kind] then
    return nil, "kind: verify, profile or tune expected", "bad_input"
  end
  local task, why, code = request.task(body.task, options.tasks, options.may_submit)
  if not task then
    return nil, why, code
  end
  local files, problem = checked_files(body.files)
  if files then
    files, problem = whole(files, template.skill(options.target))
  end
  if not files then
    return nil, problem, "bad_input"
  end
  local wrong = body.kind == "tune" and tune.wrong(body)
  if wrong then
    return nil, wrong, "bad_input"
  end
  return { kind = body.kind, task = task, files = files,
    name = body.name, values = body.values }
end

return request
