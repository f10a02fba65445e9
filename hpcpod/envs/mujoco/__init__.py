"""gymnasium's MuJoCo tasks, written once for a batch, beside what steps their simulations."""
