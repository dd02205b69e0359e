"""What changes with the number of pages: memory, disks, latency, and what gives way first."""
