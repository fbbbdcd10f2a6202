"""A small network, trained by Opacus as its tutorial does, as a trial's process imports it."""

import warnings

import torch
from opacus import PrivacyEngine
from torch import nn

torch.set_num_threads(1)


def train(params, data, trial):
    warnings.simplefilter("ignore")
    X, y = data
    records = torch.utils.data.TensorDataset(torch.from_numpy(X).reshape(-1, 1, 8, 8), torch.from_numpy(y))
    layers = (nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 10))
    model = nn.Sequential(*layers)
    engine = PrivacyEngine()
    private, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=params["lr"]),
        data_loader=torch.utils.data.DataLoader(records, batch_size=270),
        noise_multiplier=trial.noise_multiplier,
        max_grad_norm=params["max_grad_norm"],
        noise_generator=trial.torch_generator(),
    )
    for _ in range(params["epochs"]):
        for images, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(private(images), labels).backward()
            optimizer.step()
    trial.spent(engine)
    return nn.Sequential(*layers)


def correct(model, record):
    images, labels = record
    with torch.no_grad():
        answer = model(torch.from_numpy(images).reshape(-1, 1, 8, 8)).argmax(dim=1)
    return float(answer[0] == int(labels[0]))
