-- A server whose memory is full refuses a script's first write if that may need memory, and none that comes after it.
-- Law: what ends, frees or keeps a run is done although memory is full; what begins something is refused whole.
local function although_full()
  call('DEL', T .. '0')
end

-- Writes nothing, and is refused where a write that needs memory would be.
local function needs_memory()
  call('SETRANGE', T .. '0', 0, '')
end

local function is_full()
  return type(redis.pcall('SETRANGE', T .. '0', 0, '')) == 'table'
end
