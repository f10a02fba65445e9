"""A plain PyTorch loop of supervised learning as a program of a run: copy this file, change it.

Its steps are epochs, and its score is the accuracy on a validation set with its standard error:
there are no episodes to seed. The set is drawn by the seed of the panel, so that a final evaluation
has points that decided nothing before; a file of validation data would be the same each time. The
task is two spirals, made here.
"""

import torch
from torch import nn

import hpcpod

PATIENCE = 10
"""Epochs between two saves in the middle of a round."""


def spirals(count, seed):
    """Points [count, 2] of two arms, with noise, and the arm of each."""
    generator = torch.Generator().manual_seed(seed)
    arm = torch.randint(2, (count,), generator=generator)
    turn = torch.rand(count, generator=generator).sqrt() * 9
    angle = turn + torch.pi * arm
    points = torch.stack((angle.cos(), angle.sin()), 1) * turn[:, None] / 9
    return points + 0.03 * torch.randn(count, 2, generator=generator), arm


def main(pod):
    given = pod.hyperparameters
    torch.manual_seed(pod.seed)
    width = given["width"]
    model = nn.Sequential(
        nn.Linear(2, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2)
    )
    optimizer = torch.optim.AdamW(model.parameters())
    if pod.checkpoint:
        state = torch.load(pod.checkpoint / "state.pt", weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    for group in optimizer.param_groups:  # after the load, which brings the parent's
        group |= {"lr": given["learning_rate"], "weight_decay": given["weight_decay"]}

    def save():
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, pod.save_to / "state.pt")

    points, arms = spirals(2000, seed=0)
    epoch = 0
    while pod.train_steps_left and not pod.should_stop:
        for rows in torch.randperm(len(points)).split(100):
            loss = nn.functional.cross_entropy(model(points[rows]), arms[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        epoch += 1
        pod.progress(steps=epoch, loss=loss.item())
        if epoch % PATIENCE == 0:
            save()
            pod.saved()

    if pod.mode == "train":
        save()
    points, arms = spirals(1000, seed=pod.panel_seeds[0])
    with torch.no_grad():
        right = (model(points).argmax(1) == arms).float()
    error = right.std().item() / len(right) ** 0.5
    pod.report(score=right.mean().item(), error=error, episodes=len(right), steps=epoch)


if __name__ == "__main__":
    for pod in hpcpod.sessions(steps=100, learning_rate=1e-3, weight_decay=0.01, width=64):
        main(pod)
