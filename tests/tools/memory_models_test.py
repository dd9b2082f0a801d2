"""The memory of convolutional networks is what their plans predict, within 2 %, whatever cut, schedule and kernels."""
import math
import random
import warnings

import memory_runs
import programs
import small_onnx as onnx

try:
    import torch
    import torchvision
except ImportError:
    torch = None

SIDE, SAMPLES, CLASSES = 64, 16, 10
# Cut, replicated, recomputed: devices, flags.
PLANS = ((1, "--micro-batches 1"), (1, "--micro-batches 4"), (2, "--stages 2 --micro-batches 4 --schedule 1f1b"),
         (2, "--stages 2 --micro-batches 4 --schedule gpipe --recompute always"), (2, "--replicas 2 --micro-batches 2"))
KERNEL_PLANS = ((2, "--stages 2 --micro-batches 4 --schedule 1f1b"), (2, "--replicas 2 --micro-batches 2"))


class MemoryModelsTest(memory_runs.MemoryRuns):
    def data(self, inputs, output, labels, classes):
        """A file of images and labels: classes, or numbers where there are none."""
        rng = random.Random(3)
        path = self.scratch / f"data{len(list(self.scratch.iterdir()))}.safetensors"
        images = [SAMPLES, 3, SIDE, SIDE]
        drawn = [rng.randrange(classes) for _ in range(math.prod(labels))] if classes else [rng.gauss(0, 1) for _ in range(math.prod(labels))]
        programs.write_safetensors(path, {f"x/{inputs}": ("F32", images, onnx.raw(onnx.FLOAT, [rng.gauss(0, 1) for _ in range(math.prod(images))])),
                                          "labels/t": ("I64" if classes else "F32", labels, onnx.raw(onnx.INT64 if classes else onnx.FLOAT, drawn))})
        loss = f"cross_entropy(output={output},labels=t,axis=1)" if classes else f"mse(output={output},labels=t)"
        return loss, ["--data", path]

    def expect_plans(self, model, loss, data):
        for plans, costs in ((PLANS, "analytic"), (KERNEL_PLANS, "measured")):
            for devices, flags in plans:
                with self.subTest(plan=flags, costs=costs):
                    self.expect(model, loss, data, devices, "--mini-batch", SAMPLES, *flags.split(), optimizer="sgd", costs=costs)

    def test_resnet(self):
        model = self.model("resnet", "--depth", 50, "--image", SIDE, "--classes", CLASSES)
        self.expect_plans(model, *self.data("image", "logits", [SAMPLES], CLASSES))

    def test_vgg(self):
        model = self.model("vgg", "--image", SIDE, "--classes", CLASSES, "--hidden", 256)
        self.expect_plans(model, *self.data("image", "logits", [SAMPLES], CLASSES))

    def test_unet(self):
        model = self.model("unet", "--blocks", 2, "--channels", 20, "--image", SIDE)
        self.expect_plans(model, *self.data("image", "mask", [SAMPLES, 1, SIDE, SIDE], 0))


def exported(name, instructions=None):
    """A test of that architecture of torchvision, as PyTorch exports it for training, with those vector instructions of the processor."""
    def test(self):
        if torch is None:
            self.skipTest("no PyTorch")
        self.instructions = instructions
        torch.manual_seed(0)
        module = getattr(torchvision.models, name)(num_classes=CLASSES).train()
        path = self.scratch / f"{name}.onnx"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(module, (torch.randn(2, 3, SIDE, SIDE),), path, input_names=["x"], output_names=["y"],
                              dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}}, training=torch.onnx.TrainingMode.TRAINING,
                              dynamo=False, do_constant_folding=False)
        self.expect_plans(path, *self.data("x", "y", [SAMPLES], CLASSES))
    return test


for architecture in ("resnet18", "mobilenet_v2", "resnext50_32x4d", "shufflenet_v2_x1_0", "densenet121"):
    setattr(MemoryModelsTest, f"test_export_of_{architecture}", exported(architecture))
for architecture, limit in (("resnet18", "AVX2"), ("resnet18", "SSE41"), ("mobilenet_v2", "AVX")):
    setattr(MemoryModelsTest, f"test_export_of_{architecture}_with_{limit.lower()}", exported(architecture, limit))


if __name__ == "__main__":
    programs.main()
