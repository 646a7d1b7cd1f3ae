-- What khost.sched builds from tasks: waiting for many, mapping with a limit, the first of several, time limits.
return function(sched, core)
  local native, CANCELLED = core.native, core.CANCELLED
  local cancel, here, keep_trace, need, pack = core.cancel, core.here, core.keep_trace, core.need, core.pack

  -- Children that the caller does not wait for and that end with it.
  local function spawn_service(name, fn, ...) return core.start(here(name), name, true, fn, ...) end

  function sched.wait(list)
    local results, failures = {}, {}
    for i, task in ipairs(list) do
      local value, message = task:wait()
      if task.status_ == "done" then
        results[i] = value
      else
        failures[#failures + 1] = { index = i, message = message, trace = task.trace_ }
      end
    end
    return results, failures
  end

  local MAP_OPTIONS = { limit = true, on_failure = true }

  function sched.map(list, fn, options)
    options = options or {}
    for key in pairs(options) do
      if not MAP_OPTIONS[key] then error(("map: unknown option '%s' (known: limit, on_failure)"):format(key), 2) end
    end
    local parent = here("map")
    parent.maps = (parent.maps or 0) + 1
    local stream = ("%s/map%d"):format(core.path_of(parent), parent.maps)
    local results, failures, next_index = {}, {}, 1
    local workers, first_error = {}, nil
    local function stop_others(self)
      for _, other in ipairs(workers) do
        other.awaited = true
        if other ~= self then cancel(other) end
      end
    end
    local function work()
      local self = here("map")
      while next_index <= #list do
        local i = next_index
        next_index = i + 1
        -- Draws depend on the item, not on which worker happens to take it.
        self.stream = ("%s/%d"):format(stream, i)
        local ok, value = xpcall(fn, keep_trace, list[i], i)
        if ok then
          results[i] = value
        elseif value == CANCELLED or options.on_failure == "raise" then
          if value ~= CANCELLED and not first_error then
            first_error = value
            stop_others(self)
          end
          error(value, 0)
        else
          failures[#failures + 1] = { index = i, message = tostring(value), trace = self.trace_ }
        end
      end
    end
    for i = 1, math.min(options.limit or #list, #list) do workers[i] = sched.spawn(work) end
    for _, worker in ipairs(workers) do
      local ok, reason = pcall(need, worker)
      if not ok then
        stop_others(nil)
        error(first_error or reason, 0)
      end
    end
    return results, failures
  end

  function sched.race(fns)
    local caller, runners = native.current(), {}
    here("race")
    for i, fn in ipairs(fns) do
      runners[i] = sched.spawn(fn)
      runners[i].awaited = true
      runners[i].waiters = { caller }
    end
    local winner
    while not winner do
      for i, task in ipairs(runners) do
        if task.status_ ~= "running" then
          winner = i
          break
        end
      end
      if not winner then native.park() end
      for _, task in ipairs(runners) do
        if task.status_ == "running" then task.waiters = { caller } end
      end
    end
    for _, task in ipairs(runners) do cancel(task) end
    return winner, need(runners[winner])
  end

  function sched.scope(fn) return need(sched.spawn(fn)) end

  function sched.timeout(seconds, fn, ...)
    local task, timed_out = sched.spawn(fn, ...), false
    local timer = spawn_service("timeout", function()
      native.sleep(seconds)
      timed_out = true
      cancel(task)
    end)
    local results = pack(pcall(need, task))
    cancel(timer)
    if timed_out and task.status_ == "cancelled" then
      return nil, ("timed out after %g s"):format(seconds), "timeout"
    end
    if not results[1] then error(results[2], 0) end
    return unpack(results, 2, results.n)
  end

  function sched.every(seconds, fn)
    return spawn_service("every", function()
      while true do
        native.sleep(seconds)
        fn()
      end
    end)
  end
end
