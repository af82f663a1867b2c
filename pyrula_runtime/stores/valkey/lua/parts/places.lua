-- Places of runs and events: one counter, so that a place says what came before what. A higher priority is a leap to the
-- front. In a sorted set by time, what has the same time stands by its place, which is in the first 11 characters.
local FRONT = 2 ^ 42 -- places; there is room for as many of each priority

local function by_place(place, id)
  return string.format('%011x', place % FRONT) .. id
end
