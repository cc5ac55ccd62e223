"""What administrators keep in order: people, their teams, tokens and hosts, and the settings of the policy."""
