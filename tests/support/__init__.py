"""What tests share: cases, the oracle, programs, machines and memory that they need."""
