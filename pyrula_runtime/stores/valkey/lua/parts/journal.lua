-- Journal entries: appended in blocks (a call takes no more than a few thousand values), read in pages of whole entries.
local function append(id, from, count)
  local size = 0
  for at = from, from + count - 1, 5000 do
    call('RPUSH', T .. 'j:' .. id, unpack(ARGV, at, math.min(at + 4999, from + count - 1)))
  end
  for at = from, from + count - 1 do size = size + #ARGV[at] end
  return size
end

-- Whole entries from `start`, at most `most` bytes together, but at least one if there is any.
local function page(id, start, most)
  local found, size = {}, 0
  while true do
    local some = call('LRANGE', T .. 'j:' .. id, start, start + 99)
    for _, entry in ipairs(some) do
      size = size + #entry
      if #found > 0 and size > most then return found end
      found[#found + 1] = entry
    end
    if #some < 100 then return found end
    start = start + 100
  end
end
