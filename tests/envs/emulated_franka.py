"""A Franka that speaks its real protocol and is simulated by others (franky-sim), on this machine's loopback."""

from franky_sim import SimulationServer
from franky_sim.mujoco_simulator import MujocoSimulator

with MujocoSimulator() as simulator:
    robot = simulator.add_robot()
    with SimulationServer(simulator) as server:
        print(robot.hostname, flush=True)
        server.run_forever()
