"""Tools that test a program against the protocol. They share no code with the runner or the executors."""
