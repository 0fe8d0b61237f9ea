"""Commands of the memcached protocol, good and bad, for which two servers must give the same answers.

Each case is sent to a server that was flushed before, followed by `mn`, whose answer ends the case. `|` stands where a case is sent in pieces.
What two servers need not agree on is masked: see `masked`. Where memcached 1.6.18 cuts numbers (client flags above 32 bits, times after 2038),
counts its own header as part of a value's length, loses the answers before a get with a key that is too long, or takes
blanks before a number, there is no case; nor for what later versions have (N of ms).
"""
import re
import select
import socket

from served import HANG_SECONDS


def long_key(length):
    return b"k" * length


# One case a line: what a client sends.
CASES = [
    # Storage.
    b"set a 5 0 3\r\nabc\r\nget a\r\n",
    b"set a 5 0 3 noreply\r\nabc\r\nget a\r\n",
    b"set a 4294967295 0 0\r\n\r\nget a\r\n",
    b"set a -1 0 1\r\nx\r\nget a\r\n",
    b"set a 0 0 -1\r\nget a\r\n",
    b"set a 0 0 x\r\nget a\r\n",
    b"set a 0 x 1\r\na\r\nget a\r\n",
    b"set a x 0 1\r\na\r\nget a\r\n",
    b"set a 0 -1 1\r\nx\r\nget a\r\n",
    b"set a 0 2592001 1\r\nx\r\nget a\r\n",
    b"set a 0 0\r\nget a\r\n",
    b"set a 0 0 1 noreply extra\r\nget a\r\n",
    b"set a 0 0 1 other\r\nx\r\nget a\r\n",
    b"set\r\n", b"set a\r\n", b"set \r\n",
    b"set a 0 0 3\r\nabcdef\r\nget a\r\n",
    b"set a 0 0 6\r\nabc\r\nxy\r\nget a\r\n",
    b"set a 0 0 3\r\nabcxx\r\nget a\r\n",
    b"set a 0 0 3 noreply\r\nabcde\r\nget a\r\n",
    b"set a 0 0 3\r\n\r\n\r\n\r\nget a\r\n",
    b"set " + long_key(250) + b" 0 0 1\r\nx\r\nget " + long_key(250) + b"\r\n",
    b"set " + long_key(251) + b" 0 0 1\r\nx\r\n",
    b"set " + long_key(251) + b" 0 0 1 noreply\r\nx\r\n",
    b"set a 0 0 1\r\nx\r\nadd a 0 0 1\r\ny\r\nadd b 0 0 1\r\nz\r\nget a b\r\n",
    b"replace a 0 0 1\r\nx\r\nset a 0 0 1\r\nx\r\nreplace a 7 0 2\r\nyy\r\nget a\r\n",
    b"append a 0 0 1\r\nx\r\nset a 3 0 1\r\nx\r\nappend a 9 0 2\r\nyy\r\nprepend a 9 0 1\r\nz\r\nget a\r\n",
    b"append a 0 0 1 noreply\r\nx\r\nset a 3 0 1 noreply\r\nx\r\nappend a 9 0 2 noreply\r\nyy\r\nget a\r\n",
    b"cas a 0 0 1 1\r\nx\r\nset a 0 0 1\r\nx\r\ncas a 0 0 1 999999999\r\ny\r\nget a\r\n",
    b"cas a 0 0 1\r\nx\r\n", b"cas a 0 0 1 x\r\ny\r\n", b"cas a 0 0 1 1 noreply\r\nx\r\nget a\r\n",
    b"set a 0 0 1\r\nx\r\nset a 0 0 2000000\r\n" + b"y" * 2000000 + b"\r\nget a\r\n",
    b"set a 0 0 1\r\nx\r\nset a 0 0 2000000 noreply\r\n" + b"y" * 2000000 + b"\r\nget a\r\n",
    b"set a 0 0 2147483647\r\n",
    b"set a 0 0 |3\r\nab|c\r|\nget| a\r|\n",
    b"set a 0 0 3\nabc\r\nget a\n",
    b"set a 0 0 3\r\nabc\nget a\n",
    # Retrieval.
    b"get\r\n", b"get \r\n", b"gets\r\n", b"gets a\r\n", b"get a b c\r\n",
    b"set a 1 0 1\r\nx\r\nset b 2 0 2\r\nyy\r\nget b a c b\r\nget  a   b \r\n",
    b"set a 1 0 1\r\nx\r\ngets a\r\nget a\r\n",
    b"get " + long_key(251) + b"\r\n",
    b"get a " + long_key(251) + b" b\r\n",
    b"get " + b" ".join(b"k%d" % n for n in range(100)) + b"\r\n",
    b"set k7 0 0 1\r\nx\r\nset k999 0 0 1\r\nz\r\nget " + b" ".join(b"k%d" % n for n in range(1000)) + b"\r\n",
    b"set k7 0 0 1\r\nx\r\nget " + b" ".join(b"k%d" % n for n in range(5000)) + b"\r\n",
    b"GET a\r\n", b" get a\r\n", b"geta b\r\n", b"get\ta\r\n",
    b"gat\r\n", b"gat 0\r\n", b"gat x a\r\n", b"gat 0 a\r\n",
    b"set a 1 100 1\r\nx\r\ngat 0 a b\r\nmg a t v\r\ngats 100 a\r\nmg a t v\r\ngat -1 a\r\nget a\r\n",
    # Numbers.
    b"set n 3 0 2\r\n10\r\nincr n 5\r\ndecr n 20\r\nget n\r\nincr n 18446744073709551615\r\nincr n 2\r\nget n\r\n",
    b"set n 3 0 2\r\n10\r\nincr n 5 noreply\r\nget n\r\ndecr n 6\r\nget n\r\n",
    b"set n 3 0 3\r\n100\r\ndecr n 1\r\nget n\r\nincr n 1\r\nget n\r\n",
    b"incr n 1\r\ndecr n 1\r\nset n 0 0 1\r\nx\r\nincr n 1\r\nincr n x\r\nincr n -1\r\nincr n\r\nincr\r\nincr n 1 2 3\r\n",
    b"set n 0 0 20\r\n18446744073709551616\r\nincr n 1\r\n",
    b"set n 0 0 2\r\n1 \r\nincr n 1\r\nget n\r\n",
    b"incr " + long_key(251) + b" 1\r\n", b"incr n 18446744073709551616\r\n",
    # Delete, touch.
    b"delete a\r\nset a 0 0 1\r\nx\r\ndelete a\r\nget a\r\n",
    b"set a 0 0 1\r\nx\r\ndelete a 0\r\nget a\r\n", b"set a 0 0 1\r\nx\r\ndelete a 1\r\nget a\r\n",
    b"set a 0 0 1\r\nx\r\ndelete a noreply\r\nget a\r\n", b"delete a 0 noreply\r\n", b"delete a 0 0 0\r\n",
    b"delete\r\n", b"delete " + long_key(251) + b"\r\n",
    b"touch a 0\r\nset a 0 0 1\r\nx\r\ntouch a 100\r\nmg a t\r\ntouch a 100 noreply\r\ntouch a x\r\ntouch a\r\ntouch\r\n",
    b"set a 0 0 1\r\nx\r\ntouch a -1\r\nget a\r\n", b"touch " + long_key(251) + b" 0\r\n",
    # Others.
    b"flush_all x\r\n", b"flush_all 0 noreply\r\n", b"flush_all noreply\r\n", b"flush_all -1\r\n", b"flush_all 1 2\r\n",
    b"set a 0 0 1\r\nx\r\nflush_all\r\nget a\r\nset a 0 0 1\r\ny\r\nget a\r\n",
    b"set a 0 0 1\r\nx\r\nflush_all 1000\r\nget a\r\n",
    b"verbosity\r\n", b"verbosity 1\r\n", b"verbosity x\r\n", b"verbosity 1 noreply\r\n", b"verbosity 0 0 0\r\n", b"verbosity noreply\r\n",
    b"\r\n", b"\n", b" \r\n", b"x\r\n", b"versio\r\n", b"mnx\r\n", b"m\r\n", b"mx a\r\n",
    b"quit\r\nget a\r\n", b"quit now\r\n", b"shutdown\r\n",
    b"stats reset\r\n", b"stats nothing\r\n", b"stats sizes x\r\n",
    b"stats cachedump\r\n", b"stats detail\r\n", b"stats detail on\r\n", b"stats detail off\r\n",
    b"x" * 3000 + b"\r\n", b"x" * 1000 + b"\r\n", b"get " + b"k" * 3000 + b"\r\n",
    b"\x00\r\n", b"\xff\xfe\r\n", b"get \x01\r\n",
    # Meta get.
    b"mg\r\n", b"mg \r\n", b"mg a\r\n", b"mg a v\r\n", b"mg a v q\r\n", b"mg a v q k O7\r\n", b"mg a k O7\r\n",
    b"set a 5 0 3\r\nabc\r\nmg a\r\nmg a v\r\nmg a s v\r\nmg a f s t v\r\nmg a k v O123 f\r\nmg a v q\r\nmg a k q\r\n",
    b"set a 5 0 3\r\nabc\r\nmg a h\r\nmg a h\r\nmg a h l t\r\nmg a u\r\n",
    b"set a 5 100 3\r\nabc\r\nmg a t\r\nmg a T0 t\r\nmg a t\r\nmg a T-1\r\nmg a t\r\n",
    b"mg a v v\r\n", b"mg a !\r\n", b"mg a T\r\n", b"mg a Tx\r\n", b"mg a O" + b"1" * 40 + b"\r\n", b"mg " + long_key(251) + b" v\r\n",
    b"mg a vt\r\n", b"set a 0 0 1\r\nx\r\nmg a vt\r\nmg a v t\r\n",
    b"mg a N30 v t\r\nmg a N30 v t\r\nmg a v\r\nms a 2 c0\r\nhi\r\nmg a v\r\n",
    b"mg a N30 t\r\nmg a t\r\nms a 2\r\nhi\r\nmg a t v\r\n",
    b"set a 0 100 1\r\nx\r\nmg a R200 t v\r\nmg a R200 t v\r\nmg a R10 t v\r\nset a 0 100 1\r\ny\r\nmg a R10 v\r\n",
    b"mg YQ== b v k\r\nset a 0 0 1\r\nx\r\nmg !!! b v\r\n",
    b"set a 0 0 1\r\nx\r\nmg a E5 v\r\n",
    # Meta set.
    b"ms\r\n", b"ms a\r\n", b"ms a x\r\n", b"ms a 3\r\nabc\r\nmg a v f t\r\n", b"ms a -1\r\n", b"ms a S3\r\nabc\r\nmg a v\r\n",
    b"ms a 3 T100 F9\r\nabc\r\nmg a v f t\r\n", b"ms a 3 k O9 q\r\nabc\r\nmg a v\r\n", b"ms a 3 k O9\r\nabc\r\nmg a v\r\n",
    b"ms a 3 ME\r\nabc\r\nms a 3 ME\r\nabd\r\nms a 3 mode\r\nabc\r\nmg a v\r\n",
    b"ms a 1 MA\r\nx\r\nms a 1 MS\r\nx\r\nms a 1 MA\r\ny\r\nms a 1 MP\r\nz\r\nms a 2 MR\r\nrr\r\nmg a v\r\n",
    b"ms a 1 Me\r\n1\r\nms a 1 Ma\r\n2\r\nms a 1 Mp\r\n3\r\nmg a v\r\nms a 1 MX\r\ny\r\nms b 1 Mr\r\nz\r\n",
    b"ms a 1 C1\r\nx\r\nset a 0 0 1\r\nx\r\nms a 1 C99999999\r\ny\r\nmg a v\r\n",
    b"ms a 1 C1 q\r\nx\r\nset a 0 0 1\r\nx\r\nms a 1 C99999999 q\r\ny\r\nmg a v\r\n",
    b"set a 0 0 1\r\nx\r\nms a 1 I C1\r\ny\r\nmg a v\r\nmg a v\r\nms a 1\r\nz\r\nmg a v\r\n",
    b"ms a 3\r\nabcde\r\nmg a v\r\n", b"ms a 3 q\r\nabcde\r\nmg a v\r\n", b"ms a 3 !\r\nabc\r\n", b"ms a 3 T\r\nabc\r\n", b"ms a 3 Tx\r\nabc\r\n",
    b"ms a 3 Fx\r\nabc\r\n", b"ms a 3 Cx\r\nabc\r\n", b"ms a 3 k k\r\nabc\r\n",
    b"ms " + long_key(251) + b" 1\r\nx\r\n", b"ms a 2000000\r\n" + b"y" * 2000000 + b"\r\nmg a v\r\n", b"ms a 2000000 q k O3\r\n" + b"y" * 2000000 + b"\r\n",
    b"ms YWJj 1 b k\r\nx\r\nget abc\r\n", b"ms a 1 noreply\r\nx\r\n",
    # Meta delete.
    b"md\r\n", b"md a\r\n", b"md a q\r\n", b"md a k O5\r\n", b"set a 0 0 1\r\nx\r\nmd a\r\nget a\r\n", b"set a 0 0 1\r\nx\r\nmd a q\r\nget a\r\n",
    b"set a 0 0 1\r\nx\r\nmd a k O5\r\n", b"set a 0 0 1\r\nx\r\nmd a C9999999\r\nmd a C9999999 q k\r\nget a\r\n",
    b"set a 0 0 1\r\nx\r\nmd a I T30\r\nmg a v t\r\nmg a v\r\nmg a v\r\nms a 1\r\ny\r\nmg a v\r\n", b"set a 0 0 1\r\nx\r\nmd a I\r\nmg a v c0\r\n",
    b"md a !\r\n", b"md " + long_key(251) + b"\r\n", b"md a Cx\r\n", b"md YQ== b k\r\n",
    # Meta arithmetic.
    b"ma\r\n", b"ma n\r\n", b"ma n q\r\n", b"ma n N0\r\nma n\r\nmg n v\r\n", b"ma n N0 J13 v\r\nma n v\r\nma n D5 v t\r\nma n MD D3 v\r\nma n Mdecr D100 v\r\n",
    b"ma n N90 J13 v t\r\nma n T30 t v\r\nma n k O4 v\r\nma n q\r\nma n q v\r\n", b"set n 0 0 1\r\nx\r\nma n\r\nma n q\r\n",
    b"ma n N0 J7 q\r\nma n q\r\nma n N0 J7 q v\r\nmg n v\r\n", b"ma m N90 J3 D5 q c v t k O1\r\nma m MD q\r\nmg m v\r\n",
    b"ma n Dx\r\n", b"ma n Jx\r\n", b"ma n Nx\r\n", b"ma n MX\r\n", b"ma n !\r\n", b"ma n Tx\r\n", b"ma n N0 C5\r\nma n C99999\r\n", b"ma n C5\r\n",
    b"ma n M+ N0\r\nma n M- v\r\nma n MI v\r\nma n Mi v\r\n", b"ma " + long_key(251) + b"\r\n",
    # Meta debug.
    b"me\r\n", b"me a\r\n", b"set a 0 0 1\r\nx\r\nme a\r\nget a\r\nme a\r\n", b"me " + long_key(251) + b"\r\n",
    # Pipelines.
    b"".join(b"set p%d 0 0 2 noreply\r\n%02d\r\n" % (n, n) for n in range(50)) + b"get " + b" ".join(b"p%d" % n for n in range(50)) + b"\r\n",
    b"".join(b"mg p%d v q k\r\n" % n for n in range(50)),
    b"set a 0 0 1\r\nx\r\nget a\r\ndelete a\r\nget a\r\nset a 0 0 1\r\ny\r\nget a\r\nappend a 0 0 1\r\nz\r\nget a\r\n",
]


# Times to live in the cases; what is left of one is taken for it.
TIMES_S = (0, 30, 90, 100, 200)
# Round trips of another connection after which a server of one thread has answered whatever it answers at all.
TURNS = 1000


def masked(answer: bytes) -> bytes:
    """An answer without versions of items, which servers count as they like, and without the debug values."""
    answer = re.sub(rb"(VALUE \S+ \d+ \d+) \d+\r\n", rb"\1 CAS\r\n", answer)
    answer = re.sub(rb"(?m)^((?:HD|VA \d+)\b.*?) c\d+", rb"\1 cCAS", answer)
    # A number that became shorter may be filled with blanks.
    answer = re.sub(rb"(VALUE n \d+) \d+\r\n(\d+) *\r\n", rb"\1 LENGTH\r\n\2\r\n", answer)
    answer = re.sub(rb"(?m)^(ME \S+) .*\r", rb"\1 DEBUG\r", answer)
    # Seconds may pass between two commands.
    answer = re.sub(rb" t(\d+)", lambda m: b" t~%d" % next((most for most in TIMES_S if int(m[1]) <= most), int(m[1])), answer)
    return re.sub(rb"(?m)^VERSION .*\r", b"VERSION\r", answer)


# Counts of `stats` that tell what became of requests. (cmd_meta counts the `mn` behind a case, which a server may be asked more often.)
COUNTS = ("cmd_get", "cmd_set", "cmd_touch", "get_hits", "get_misses", "delete_hits", "delete_misses", "incr_hits", "incr_misses",
          "decr_hits", "decr_misses", "cas_hits", "cas_misses", "cas_badval", "touch_hits", "touch_misses")


def counts(address) -> dict[str, int]:
    """What a server has counted so far."""
    client = Client(address)
    client.socket.sendall(b"stats\r\n")
    lines = (line.split() for line in client.until(b"END\r\n").splitlines())
    found = {words[1].decode(): words[2] for words in lines if words[:1] == [b"STAT"] and len(words) == 3}
    return {name: int(found[name]) for name in COUNTS}


def is_counted_apart(case: bytes) -> bool:
    """Returns whether servers need not count a case alike: one that sets the counts back, and a get that is refused as a whole here, of which
    memcached has looked up what stands before the mistake."""
    return case == b"stats reset\r\n" or case.startswith((b"get a k", b"mg a O1"))


class Client:
    """One connection."""

    def __init__(self, address):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(HANG_SECONDS)
        self.socket.connect(address)

    def until(self, end: bytes, other=None) -> bytes:
        """What comes until it ends so, or the server hangs up, or waits for more while it serves another connection."""
        answer = b""
        while not answer.endswith(end):
            if other and not other.outlasts(self):
                return b"<waits>"
            part = self.socket.recv(1 << 20)
            if not part:
                return answer + b"<closed>"
            answer += part
        return answer

    def outlasts(self, one) -> bool:
        """Goes round with the server until there is something for another connection; `False`: there is nothing."""
        for _ in range(TURNS):
            self.socket.sendall(b"mn\r\n")
            self.until(b"MN\r\n")
            if select.select([one.socket], [], [], 0)[0]:
                return True
        return False


def answers(address, case: bytes) -> bytes:
    """What a server says to a case, with `<closed>` where it hangs up and `<waits>` where it waits for more."""
    client = Client(address)
    try:
        client.socket.sendall(b"flush_all\r\n")
        client.until(b"OK\r\n")
        parts = case.split(b"|") if len(case) < 100 else [case]
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in [*parts, b"mn\r\n"]:
            client.socket.sendall(part)
        return client.until(b"MN\r\n", other=Client(address))
    except (ConnectionError, BrokenPipeError):
        return b"<closed>"
    finally:
        client.socket.close()
