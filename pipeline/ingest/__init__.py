"""What every job that reads Kafka shares: which offsets are next, reading them, and one commit that says so.

A Delta table is its own checkpoint (docs/adr/0013): `ranges` decides, `offsets` asks the brokers, `kafka`
reads, `staging` writes files that nobody sees, `commits` puts them and the positions into one table version.
"""
