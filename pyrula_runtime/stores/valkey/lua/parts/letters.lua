-- Messages that are not consumed, after a number: number, message, and so on, at most `most` bytes together, but at least
-- one; and how many bytes these are.
local function letters(id, after, most)
  local found, size = {}, 0
  while true do
    local some = call('ZRANGEBYSCORE', T .. 'm:' .. id, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, 100)
    for at = 1, #some, 2 do
      size = size + #some[at]
      if #found > 0 and size > most then return found, size - #some[at] end
      after = some[at + 1]
      found[#found + 1] = tonumber(after)
      found[#found + 1] = some[at]
    end
    if #some < 200 then return found, size end
  end
end
