"""Human hands (MANO, a licence-free skeleton) and the catalog of robot hands and arms."""
