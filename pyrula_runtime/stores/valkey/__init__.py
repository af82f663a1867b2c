"""The shared store: one Valkey or Redis server, or a cluster of them, used by workers on any number of hosts.

Shape. Runs are kept in *shards*. Every key of a shard begins with its *tag*, `py:{namespace:3}:`, whose braces put all
of them into one slot of a cluster. One verb is one script, and a script touches the keys of one tag only, so each verb
is atomic, one round trip, and the same on one server and on a cluster. Scripts know order and time; the statuses they
write come in as arguments, decided by the core. On one server there is one shard: a server runs one script at a time,
so splitting its queue would buy nothing and cost the order of submission. In a cluster there are 64.

Modules. `shard` has the verbs at one tag, `shards` says which there are; `store` opens and hears; `front` leads each
verb to the shards that it is about, and is made of `claims`, `submitting` (keys), `leasing`, `timers` and `outbox`.
What a handle knows of its shards stands in `lookout` (where a claim looks), `claimed` (where it may hold runs) and
`dues` (when something is due): hints, all of them, that save calls.

Shards. The number is the end of a run's id (`places`), so nothing is looked up to find a run, and another number of
shards moves none: all that there ever were are served. What there is once (workers, leases, schedules, events) is in
shard 0. A key's record stands where the key leads among the present number of shards. Who changes the number tells
every shard before it places a key, so whoever has not heard is refused there (`moved`) and hears it; records of former
places are looked up for as long as they may live.

Leases. All workers that serve the same share the shards (`parts/seats.lua`). Each asks again and again, in one script
that renews its share, takes what is free and hands on what is too much; nothing is taken from one that keeps asking. A
lease says where to look first and whose wake a run is. It is no lock: two lessees do no harm, and a shard that nobody
looks at is swept. With one shard there are none.

Silence. A lock's life is measured in its shard, but that nobody could reach the server is known only where somebody
always comes: workers prove again and again that each node can be written, in the first shard of each; the scan takes
from there, as a count, how often all locks of that node got one more life.

Keys of a tag:

    n          counter: places in line, also of events; a run keeps its place for life, so who is given back, or has
               waited, is in front again. A priority is a leap of 2^42 places
    r:<id>     hash, the run's small facts, fields of one letter (below); small enough to be stored in one block
    i:<id>     string, the input          o:<id>  hash, `r` result, `e` error, `s` what it shows, once there is one
    j:<id>     list, the journal          f:<id>  list of facts, each after its time
    m:<id>     sorted set by number: messages that are not consumed, each with its id and name
    ms:<id>    set, ids of all messages that ever came
    q:<line>   sorted set by place: claimable runs of a line, `<workflow>` or, for pinned runs, `<workflow>|<version>`
    x:<line>   the same for suspects;     xs      set of all suspects that are claimable
    a          sorted set by end of lock: the held runs. The lock is here and nowhere else, so that scan and lock agree
    h:<owner>  sorted set by place: what an incarnation holds
    l:<status>:<workflow>  sorted set without scores: ids, for listings and counts;  w  set of the workflows' names
    lp:<status>:<parent>   the same for the children of a run;  lf:<status>:<schedule>  for the runs that one fired
    pv         hash by line: how many runs are pinned so and have not ended
    t:<status> sorted set by due time, then place: runs that wait for a time;  ta  when the timer round looks again
    d:<status> sorted set by time of the end: what ended so; a run that was sent on may be there until it is looked at
    k:<xxxx>   hash by digest of the idempotency key: whose run;  kl:<ttl>  list of digests as they expire;  kt  ttls
    c          hash, the clock: `a` last sign of life, `o` offset of the monotonic one, `s` longest silence; `v` schema
    z          set: lines for which somebody waits (`*`: for any)
    c          also `n` the number of shards by which keys are placed here, `g` count of silences that were measured
               here, `h` the last count that was told from where it is measured
    s          hash, in shard 0: `count`, `most` numbers of shards now and at most, `told` the one that all have heard,
               `former:<count>` when that one was given up
    ps, pb     the register of workers, and their last beats
    lb, lm     who leases: sorted set by end of life, hash: of which group, all who serve the same, each is
    ls:<incarnation>  sorted set of his seats;  lo:<group>  sorted set of its workers by number of seats, of which there
               are ln:<group>;  lw:<group>  sorted set of shards by the time of the last sweep
    ob, on     outbox: sorted set by number, effects on other tags that were written and not carried; its counter
    sr, sn     schedules: hash of their revisions and records, sorted set by the time at which they fire next
    e:<event>  hash: n name, b body, l time to live, t told, p place, w who has still to take it: `|one|other|`, `|`
               when all have, none while nobody wants it
    ep, ep:<workflow>  sorted sets by place: events to be taken, and by whom;  ed:<name>  those that nobody wants yet
    ex         sorted set by the end of their life: events that all have taken, kept for their ids
    en:<name>, ew:<workflow>|<version>  sets: who is subscribed to a name, and to which names one is

Fields of `r:<id>`: w name of its line, s status, n place, r revision, f fence, k nonce, o owner, l journal length at
the last claim, b bytes of the journal, c 2 for each message that came and 1 more if a cancel was requested, d digest,
t created, u started, e finished, q claimable, x suspect, y dossier; of a run that messages wake h for which; of few
runs a the start that was asked for, i a JSON list of generation, parent, schedule, what becomes of it with the parent,
the parent's operation. What is empty or absent is None. To ask for a field that is absent costs a look at all others,
so what every commit asks for shares a field where it can.

Invariants. A run is in at most one of `q:`/`x:`/`a`/`t:`; it is in `a` exactly if it has an owner, and then in that
owner's `h:`; it is in exactly one `l:`. Whoever writes checks fence and nonce of the token in the same script.

Waiting. A turn that suspends its run says what it waits for, and the script that writes this looks at time, inbox and
cancel once more: what came after the turn's last look sends the run on in the same write. Whoever makes the timer round
hears with each look when the next run is due, which is kept in `ta`; only a time before that is published, so nobody
polls, and a wait that is longer than another one costs no message.

Effects are part of the write they come with: on runs of the same tag they are done there, for others they are in the
outbox. There they are kept as a script's name, a tag and arguments, so that carrying one is running that.

Time. The server's clock can be set, so lock life is measured on `TIME + o`, where `o` grows by whatever the clock was
set back. A clock set forward, a stopped server and a lost network look alike: nobody gave a sign of life for a while,
and the next scan gives every lock one more life instead of reclaiming it.

Wakes. A claim that found less than it asked for puts its lines into `z`, in the same script; whatever makes a run
claimable takes its line out of `z` and publishes if it was there. So nothing is published while all are busy, and no
run can slip in between the look and the sleep. Messages may get lost with their connection: a listener that connects
anew puts `*` into `z` and counts it as a wake.

Lanes. Each event loop that uses the store has its own connection (`lane`) to each server: commands of one turn of the
loop go out in one write, replies come back in order. A lane never repeats a call whose fate is unknown: the caller
hears StoreUnavailable and repeats the verb, which is safe by the contract. Only calls that the server says it did not
run (`NOSCRIPT`) are sent again, in their order, before anything younger.

Profiles. `standard` is what the server keeps; with fsync every second a power failure loses about that second, and a
failover what had not reached the replica. `durability=strict` refuses servers that do not sync before they answer and,
where a node has a replica when the store is opened, answers a batch only once one has it (`WAIT`); a batch that is not
confirmed is of unknown fate like any other. A node that took the place of another must have one if any had.

Idempotency keys are the most numerous things of a busy store, so they are compact: 2 bytes of a key's digest name a
hash of at most a few hundred records, which the server keeps in one block; about 90 bytes a key instead of 180.

Rejected. Streams with consumer groups (lost entries, idle timeouts); a lock key per run (expiry and index disagree);
server-side functions (younger than the oldest server); redis-py, whose client repeats a lost INCR and whose import
takes 45 ms and 10 MB of each worker (the reply parser alone, hiredis, takes 0.4 ms); one connection for all loops (a
hop between threads for each answer, and a blocked lane would hold up its neighbours' replies).

Nodes that are away. What is asked of many shards is asked of all at once, or of one server after the other where a
limit is to be kept (`asking`). A shard that gives no answer takes nothing from the others: the verb raises, with what
the others have said, and whoever can act on that acts and comes back. So an answer never speaks of runs of which nobody
knows. An effect on a shard that is away waits in its outbox, and so does one that only a newer version can read.

Clusters. `KEYS[1]` is the tag itself, of which no key ever exists. So a node that hands the slot over refuses every
script from the first key it has given away to the last (`ASK`), and never runs one with half of its keys.

What may go wrong. A failover loses the tail of the journal: the fence may repeat, so a random nonce stands beside it,
and a commit whose position is beyond the journal's end hears `gap` and the engine writes the missing entries again.
A script that fails in the middle is not undone: each validates all before its first write. A server whose memory is
full refuses a script's first write and no other: what ends, frees or keeps a run begins with a deletion (of a key `0`
that never exists), and what begins something is refused whole.
"""
