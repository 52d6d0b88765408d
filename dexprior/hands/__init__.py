"""Human hands: MANO, and a licence-free skeleton."""
