// What the first view asks of the daemon, asked before the page itself is read: a script that is on its way, then read,
// then run would ask much later. Who asks takes the answer from here, once.
{
  const ways = ["/api/v1/session", "/api/v1/questions"];
  if (/^#?\/?$/.test(location.hash)) ways.push("/api/v1/overview");
  // Nothing is asked from within somebody else's page, nor shown there.
  if (window.top === window.self) window.asked = new Map(ways.map((way) => [way, fetch(way)]));
}
