---@meta khost.config
-- Configuration: `khost.toml` describes the machine, a preset describes an experiment, `--set a.b=c` overrides.
-- Keys that nobody declared are failures that name the file, the line and the nearest legal key.

local config = {}

---@alias khost.Failure nil, string, string

---@class (exact) khost.Field
---@field kind "number"|"integer"|"text"|"choice"|"flag"|"list"|"group"
---@field default? any        absent: the key must be set
---@field min? number
---@field max? number
---@field choices? string[]
---@field fields? table<string, khost.Field>
---@field help? string

---@class (exact) khost.LoadOptions
---@field preset? string      a name in recipes/presets, or the path of a TOML file
---@field set? string[]       overrides, "a.b=c"; a value that is not TOML is taken as text
---@field schema? table<string, khost.Field>   without one, khost.toml and the preset themselves define the keys
---@field machine? string     the machine's defaults; khost.toml of the root when absent

--- Reads and merges khost.toml, the preset and the overrides. A preset may say `extends = "other"`: then it may only
--- change keys that the other one has. Reading a key that does not exist in the result raises, so that a typing
--- mistake in a recipe is seen; `config.get` reads optional ones.
---@param options khost.LoadOptions
---@return table|nil config, string? message, string? code   code "bad_input"
function config.load(options) end

--- A value by its dotted name, or the default.
---@param c table
---@param name string
---@param default? any
---@return any
function config.get(c, name, default) end

--- A copy whose absent keys read as nil, for code that looks for optional ones.
---@param c table
---@return table
function config.plain(c) end

--- One line a key with its value and where the value came from.
---@param c table   what `config.load` returned
---@return string
function config.show(c) end

--- What differs between two configurations, sorted by name.
---@param a table
---@param b table
---@return {name: string, from: any, to: any}[]
function config.diff(a, b) end

--- TOML text as plain data.
---@param text string
---@param name? string   for messages
---@return table|nil, string? message, string? code
function config.parse(text, name) end

--- Names of the presets in recipes/presets.
---@return string[]
function config.presets() end

--- The word among `legal` that is nearest to `word` by edit distance.
---@param word string
---@param legal string[]
---@return string
function config.nearest(word, legal) end

---@param field? {default?: number, min?: number, max?: number, help?: string}
---@return khost.Field
function config.number(field) end

---@param field? {default?: integer, min?: number, max?: number, help?: string}
---@return khost.Field
function config.integer(field) end

---@param field? {default?: string, help?: string}
---@return khost.Field
function config.text(field) end

---@param field {choices: string[], default?: string, help?: string}
---@return khost.Field
function config.choice(field) end

---@param field? {default?: boolean, help?: string}
---@return khost.Field
function config.flag(field) end

---@param field? {default?: any[], help?: string}
---@return khost.Field
function config.list(field) end

---@param fields table<string, khost.Field>
---@return khost.Field
function config.group(fields) end

--- Checks the fields themselves and returns them for `config.load`.
---@param fields table<string, khost.Field>
---@return table<string, khost.Field>
function config.schema(fields) end

return config
