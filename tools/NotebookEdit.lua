-- NotebookEdit: replaces, inserts or deletes one cell of a Jupyter notebook that was read.

local files = require "agent.tool_files"
local json = require "khost.json"
local tools = require "agent.tools"

local function find(cells, id)
  for i, cell in ipairs(cells) do
    if cell.id == id or ("cell-%d"):format(i - 1) == id then
      return i
    end
  end
end

local function clear(cell)
  cell.outputs, cell.execution_count = nil, nil
end

-- What the format demands of a code cell, and what plain Lua data forgets: null, and an empty list.
local function complete(notebook)
  for _, cell in ipairs(notebook.cells) do
    cell.metadata = cell.metadata or json.decode("{}")
    if type(cell.source) == "table" and #cell.source == 0 then
      cell.source = ""
    end
    if cell.cell_type == "code" then
      cell.execution_count = cell.execution_count or json.null
      if not cell.outputs or #cell.outputs == 0 then
        cell.outputs = json.list {}
      end
    end
  end
  if #notebook.cells == 0 then
    notebook.cells = json.list {}
  end
end

local function free_id(cells)
  local number = #cells
  while find(cells, ("khost-%d"):format(number)) do
    number = number + 1
  end
  return ("khost-%d"):format(number)
end

local function change(cells, arguments)
  local mode = arguments.edit_mode or "replace"
  local at = arguments.cell_id and find(cells, arguments.cell_id)
  if arguments.cell_id and not at then
    return nil, ("there is no cell %s (%d cells; the first is cell-0)"):format(arguments.cell_id, #cells), "not_found"
  end
  if mode == "insert" then
    if not arguments.cell_type then
      return nil, "insert needs cell_type", "missing_field"
    end
    local cell = { id = free_id(cells), cell_type = arguments.cell_type, metadata = json.decode("{}"),
      source = arguments.new_source }
    clear(cell)
    table.insert(cells, (at or 0) + 1, cell)
    return cell.id
  end
  if not at then
    return nil, mode .. " needs cell_id", "missing_field"
  end
  local id = cells[at].id or arguments.cell_id
  if mode == "delete" then
    table.remove(cells, at)
    return id
  end
  cells[at].source = arguments.new_source
  cells[at].cell_type = arguments.cell_type or cells[at].cell_type
  clear(cells[at])
  return id
end

-- A list of cells that are objects; nothing less can be edited.
local function is_notebook(value)
  if type(value) ~= "table" or type(value.cells) ~= "table" then
    return false
  end
  local count = 0
  for key, cell in pairs(value.cells) do
    if type(key) ~= "number" or type(cell) ~= "table" then
      return false
    end
    count = count + 1
  end
  return count == #value.cells
end

local function run(context, arguments)
  return files.edit(context, arguments.notebook_path, function(text)
    local notebook = json.decode(text)
    if not is_notebook(notebook) then
      return nil, arguments.notebook_path .. " is not a notebook (JSON with cells)", "bad_notebook"
    end
    local id, failed, kind = change(notebook.cells, arguments)
    if not id then
      return nil, failed, kind
    end
    complete(notebook)
    return json.encode(notebook) .. "\n", ("%s: cell %s"):format(arguments.edit_mode or "replace", id)
  end)
end

return tools.define {
  name = "NotebookEdit",
  summary = "Replaces, inserts or deletes a cell of a Jupyter notebook that was read; outputs of the cell are cleared.",
  parameters = {
    { name = "notebook_path", type = "string", required = true, summary = "absolute path, /workspace/..." },
    { name = "new_source", type = "string", required = true, summary = "text of the cell" },
    { name = "cell_id", type = "string", summary = "the cell, or the one to insert behind; cell-N counts from 0" },
    { name = "cell_type", type = "string", enum = { "code", "markdown" }, summary = "needed to insert" },
    { name = "edit_mode", type = "string", enum = { "replace", "insert", "delete" }, summary = "replace when absent" },
  },
  run = run,
}
