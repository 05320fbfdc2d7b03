"""The parcels that this example knows of; a real one would ask its carrier."""
PARCELS = {
    "KX-1001": {"id": "KX-1001", "to": "Lisbon", "state": "on its way", "days_left": 2},
    "KX-1002": {"id": "KX-1002", "to": "Oslo", "state": "delivered", "days_left": 0},
    "KX-2001": {"id": "KX-2001", "to": "Lisbon", "state": "held at the customs", "days_left": 6},
}
