def bench(*a): raise SystemExit("later")
