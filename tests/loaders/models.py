"""Models whose step is a Recorder of record.py: what a framework's own loop gives them is what was read. Each is what the recipe
of that framework calls `model`."""


def keras_model(recorder):
    """fit itself asks for the batches."""
    import keras

    class Model(keras.Model):
        def call(self, images):
            return images

        def train_step(self, data):
            images, labels = data
            recorder.train([image.numpy() for image in images], labels)
            return {"loss": 0.0}

    model = Model()
    model.compile(run_eagerly=True)
    return {"model": model}


def lightning_model(recorder):
    import lightning
    import torch

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1))

        def training_step(self, batch, number):
            recorder.train(*batch)
            return (self.weight ** 2).sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return {"model": Model()}


def trainer_model(recorder):
    """And `collate`, as the Trainer's models take their batches by name."""
    import torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1))

        def forward(self, images, labels):
            recorder.train(images, labels)
            return {"loss": (self.weight ** 2).sum()}

    def collate(rows):
        images, labels = torch.utils.data.default_collate(rows)
        return {"images": images, "labels": labels}

    return {"model": Model(), "collate": collate}


MAKERS = {"keras": keras_model, "lightning": lightning_model, "trainer": trainer_model}
