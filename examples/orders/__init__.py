"""An order's way from the shop to the door, as a durable workflow, with a demonstration of it (`make run`)."""
