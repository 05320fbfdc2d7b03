"""Scripts of one session that hear of the same thing: one event, as a client of the API sees it."""
from lib.growth import Growth, medians
from rows.scripts import FORBIDS, HEARS, Shop, tell

COUNTS = (1, 10, 50)


def once(shop, session, count):
    ms = tell(shop, session)
    return {"ms": ms, "each": ms / count}


def measure(bench):
    growth = Growth("scripts that one event is told to", "scripts", {"ms": "ms", "each": "ms/script"})
    for count in COUNTS:
        with Shop({**{f"a{number}": HEARS for number in range(count - 1)}, "z": FORBIDS}) as shop:
            session = shop.session()
            shop.ready(session)
            once(shop, session, count)
            growth.add(count, medians(lambda: once(shop, session, count), bench.rounds,
                                      f"an event to {count} scripts"))
    growth.print()
