-- A page of a journal.
-- uses: clock journal
-- KEYS[1] tag. ARGV: clock, id, position of the first entry, bytes at most.
-- Result: whole entries, at least one if there is any.
return page(ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]))
