-- A page of a run's inbox.
-- uses: clock letters
-- KEYS[1] tag. ARGV: clock, id, number after which it begins.
-- Result: number, message, and so on: whole messages, at least one if there is any.
return (letters(ARGV[2], ARGV[3], 1000000))
