-- What a write does to others, from ARGV: number of effects, then of each the script that does it, the tag of whom it
-- strikes, number of arguments, arguments as for that script.
-- Law: whoever lives in this tag is struck in this write, what is for others is in the outbox in this write.
-- uses: inbox cancels births events
local VERBS = {deliver = deliver, cancel = cancel, submit = create, emit = emit}

local function send(at, count)
  local number = call('INCR', T .. 'on')
  local packed = {number, ARGV[at], ARGV[at + 1]}
  for i = at + 3, at + 2 + count do packed[#packed + 1] = ARGV[i] end
  call('ZADD', T .. 'ob', number, cmsgpack.pack(packed))
end

local function perform(at, wall)
  local left = tonumber(ARGV[at])
  at = at + 1
  while left > 0 do
    local count = tonumber(ARGV[at + 2])
    if ARGV[at + 1] == T then
      VERBS[ARGV[at]](at + 3, count, wall)
    else
      send(at, count)
    end
    left, at = left - 1, at + 3 + count
  end
end
