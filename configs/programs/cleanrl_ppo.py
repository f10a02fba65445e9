"""PPO in one file, in CleanRL's shape, as a program of a run: docs/your-program.md has the diff."""

import argparse
import time

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

import hpcpod


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--env-id", default="CartPole-v1")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--total-timesteps", type=int, default=100_000)
    parser.add_argument("--learning-rate", type=float, default=2.5e-4)
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--gae-lambda", type=float, default=0.95)
    parser.add_argument("--clip-coef", type=float, default=0.2)
    parser.add_argument("--ent-coef", type=float, default=0.01)
    parser.add_argument("--num-envs", type=int, default=4)
    parser.add_argument("--num-steps", type=int, default=128)
    parser.add_argument("--num-minibatches", type=int, default=4)
    parser.add_argument("--update-epochs", type=int, default=4)
    return parser.parse_args()


class Agent(nn.Module):
    def __init__(self, envs):
        super().__init__()
        inputs, actions = envs.single_observation_space.shape[0], envs.single_action_space.n
        self.critic = nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 1))
        self.actor = nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, actions))

    def act(self, obs, action=None):
        spread = Categorical(logits=self.actor(obs))
        action = spread.sample() if action is None else action
        return action, spread.log_prob(action), spread.entropy(), self.critic(obs).squeeze(-1)


def evaluate(agent, env_id, seeds):
    returns = []
    for seed in seeds:
        env, total, over = gym.make(env_id), 0.0, False
        obs, _ = env.reset(seed=seed)
        while not over:
            with torch.no_grad():
                action = agent.actor(torch.as_tensor(obs, dtype=torch.float32)).argmax()
            obs, reward, terminated, truncated, _ = env.step(action.item())
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    return returns


if __name__ == "__main__":
    args = parse_args()
    pod = hpcpod.session(args.total_timesteps, **vars(args))
    args = argparse.Namespace(**{**pod.hyperparameters, "seed": pod.seed})
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    envs = gym.vector.SyncVectorEnv([lambda: gym.make(args.env_id) for _ in range(args.num_envs)])
    agent = Agent(envs)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
    if pod.checkpoint:
        for part, state in zip((agent, optimizer), torch.load(pod.checkpoint / "state.pt")):
            part.load_state_dict(state)
        optimizer.param_groups[0]["lr"] = args.learning_rate

    shape, batch = (args.num_steps, args.num_envs), args.num_steps * args.num_envs
    all_obs = torch.zeros(shape + envs.single_observation_space.shape)
    all_actions = torch.zeros(shape, dtype=torch.long)
    logprobs, rewards, dones, values = (torch.zeros(shape) for _ in range(4))
    obs = torch.as_tensor(envs.reset(seed=args.seed)[0], dtype=torch.float32)
    done = torch.zeros(args.num_envs)
    global_step, start = 0, time.time()

    while pod.train_steps_left and not pod.should_stop:
        for step in range(args.num_steps):
            global_step += args.num_envs
            all_obs[step], dones[step] = obs, done
            with torch.no_grad():
                action, logprobs[step], _, values[step] = agent.act(obs)
            all_actions[step] = action
            obs, reward, terminated, truncated, _ = envs.step(action.numpy())
            obs = torch.as_tensor(obs, dtype=torch.float32)
            rewards[step] = torch.as_tensor(reward)
            done = torch.as_tensor(np.logical_or(terminated, truncated), dtype=torch.float32)

        with torch.no_grad():
            following, carried = agent.critic(obs).squeeze(-1), 0.0
            advantages, alive = torch.zeros(shape), 1 - done
            for step in reversed(range(args.num_steps)):
                error = rewards[step] + args.gamma * following * alive - values[step]
                carried = error + args.gamma * args.gae_lambda * alive * carried
                advantages[step], following, alive = carried, values[step], 1 - dones[step]
            targets = advantages + values

        flat = (
            all_obs.flatten(0, 1), all_actions.flatten(), logprobs.flatten(),
            advantages.flatten(), targets.flatten(),
        )  # fmt: skip
        for _ in range(args.update_epochs):
            for rows in torch.randperm(batch).split(batch // args.num_minibatches):
                seen, chosen, old, gain, target = (column[rows] for column in flat)
                _, logprob, entropy, value = agent.act(seen, chosen)
                ratio = (logprob - old).exp()
                gain = (gain - gain.mean()) / (gain.std() + 1e-8)
                bounded = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
                policy_loss = -torch.min(gain * ratio, gain * bounded).mean()
                value_loss = 0.5 * (value - target).square().mean()
                loss = policy_loss + 0.5 * value_loss - args.ent_coef * entropy.mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
        print(f"{global_step} steps, {global_step / (time.time() - start):.0f} a second")
        pod.progress(steps=global_step, value_loss=value_loss.item(), entropy=entropy.mean().item())

    if pod.mode == "train":
        torch.save((agent.state_dict(), optimizer.state_dict()), pod.save_to / "state.pt")
        if pod.should_stop:  # the evaluation may take longer than is left
            pod.saved(steps=global_step)
    pod.report(returns=evaluate(agent, args.env_id, pod.panel_seeds), steps=global_step)
