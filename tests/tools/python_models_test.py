"""Models of transformers and torchvision trained by the Python package, whole and in two stages, beside loops of PyTorch with groups,
clipping, warm-up and accumulation. Skipped without these packages. Arguments after the folder: names of models."""
import copy
import sys
import warnings

import programs
import python_package  # noqa: F401

import rannc
import torch
from torch import nn

try:
    import torchvision
    import transformers
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(programs.SKIPPED)

STEPS, SAMPLES, ACCUMULATED = 10, 8, 2
WORDS, LENGTH = 100, 16
SMALL = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
NO_DROPOUT = dict(hidden_dropout_prob=0, attention_probs_dropout_prob=0)


def tokens(generator, length=LENGTH):
    return torch.randint(WORDS, (SAMPLES, length), generator=generator)


def classes(generator, number, *more):
    return torch.randint(number, (SAMPLES, *more), generator=generator)


def language(generator):
    words = tokens(generator)
    return {"input_ids": words, "labels": words}


def masked_language(generator):
    words = tokens(generator)
    labels = words.clone()
    labels[:, ::2] = -100
    return {"input_ids": words, "attention_mask": torch.ones_like(words), "labels": labels}


def bert():
    net = transformers.BertForSequenceClassification(transformers.BertConfig(
        vocab_size=WORDS, max_position_embeddings=32, num_labels=3, **SMALL, **NO_DROPOUT))

    def batch(generator):
        words = tokens(generator)
        mask = torch.ones_like(words)
        mask[::2, LENGTH // 2:] = 0
        return {"input_ids": words, "attention_mask": mask, "labels": classes(generator, 3)}

    return net, batch, None


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=WORDS, n_embd=32, n_layer=2, n_head=2, n_positions=32, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
        use_cache=False, bos_token_id=0, eos_token_id=0)), language, None


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=WORDS, num_key_value_heads=1, max_position_embeddings=32, use_cache=False, **SMALL)), language, None


def distilbert():
    return transformers.DistilBertForMaskedLM(transformers.DistilBertConfig(
        vocab_size=WORDS, dim=32, n_layers=2, n_heads=2, hidden_dim=64, max_position_embeddings=32, dropout=0,
        attention_dropout=0)), masked_language, None


def t5():
    return transformers.T5ForConditionalGeneration(transformers.T5Config(
        vocab_size=WORDS, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2, dropout_rate=0, decoder_start_token_id=0,
        use_cache=False)), lambda generator: {"input_ids": tokens(generator), "labels": tokens(generator, 12)}, None


def vit():
    return transformers.ViTForImageClassification(transformers.ViTConfig(
        image_size=32, patch_size=8, num_labels=5, **SMALL, **NO_DROPOUT)), lambda generator: {
            "pixel_values": torch.randn(SAMPLES, 3, 32, 32, generator=generator), "labels": classes(generator, 5)}, None


def cross_entropy(outputs, batch):
    return nn.functional.cross_entropy(outputs, batch[1])


def images(size):
    return lambda generator: (torch.randn(SAMPLES, 3, size, size, generator=generator), classes(generator, 10))


def resnet():
    return torchvision.models.resnet18(num_classes=10), images(64), cross_entropy


def mobilenet():
    return torchvision.models.mobilenet_v3_small(num_classes=10, dropout=0.0), images(64), cross_entropy


def convnext():
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt
    layers = [CNBlockConfig(16, 32, 1), CNBlockConfig(32, None, 1)]
    return ConvNeXt(layers, stochastic_depth_prob=0, num_classes=10), images(32), cross_entropy


def swin():
    return torchvision.models.SwinTransformer(
        patch_size=[4, 4], embed_dim=16, depths=[2, 2], num_heads=[2, 2], window_size=[4, 4], stochastic_depth_prob=0.0,
        num_classes=10), images(32), cross_entropy


def segmentation():
    net = torchvision.models.segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=4)
    return net, lambda generator: (torch.randn(SAMPLES, 3, 64, 64, generator=generator), classes(generator, 4, 64, 64)), \
        lambda outputs, batch: nn.functional.cross_entropy(outputs["out"], batch[1])


#: Statistics of mini-batches make float32 unstable within ten steps of AdamW, so these are compared in float64. Their statistics
#: are those of one micro-batch, and of one mini-batch a step.
NORMALIZED = {"resnet": resnet, "mobilenet": mobilenet, "segmentation": segmentation}
MODELS = {"bert": bert, "gpt2": gpt2, "llama": llama, "distilbert": distilbert, "t5": t5, "vit": vit, "convnext": convnext,
          "swin": swin, **NORMALIZED}


def groups(net):
    return [{"params": [parameter for parameter in net.parameters() if parameter.ndim > 1]},
            {"params": [parameter for parameter in net.parameters() if parameter.ndim < 2], "weight_decay": 0.0}]


def training(net):
    optimizer = torch.optim.AdamW(groups(net), lr=1e-3, weight_decay=0.1)
    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / 4))


def widened(batch):
    return tuple(each.double() if each.is_floating_point() else each for each in batch)


def reference_losses(net, data, loss):
    optimizer, scheduler = training(net)
    losses = []
    for batches in data:
        optimizer.zero_grad()
        terms = [(loss(net(batch[0]), batch) if loss else net(**batch).loss) / len(batches) for batch in batches]
        for term in terms:
            term.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(sum(term.item() for term in terms))
    return losses


class Models(programs.unittest.TestCase):
    def compare(self, name):
        normalized = name in NORMALIZED
        torch.manual_seed(1)
        net, batch, loss = MODELS[name]()
        net = (net.double() if normalized else net).train()
        generator = torch.Generator().manual_seed(2)
        data = [[widened(batch(generator)) if normalized else batch(generator) for _ in range(1 if normalized else ACCUMULATED)]
                for _ in range(STEPS)]
        reference = copy.deepcopy(net)
        wanted = reference_losses(reference, data, loss)
        tolerance = 1e-10 if normalized else 1e-5
        for stages in (1, 2):
            own = copy.deepcopy(net)
            optimizer, scheduler = training(own)
            with rannc.Trainer(own, data[0][0], loss=loss, optimizer=optimizer, cluster=f"local:{stages}", stages=stages,
                               clip_norm=1.0, costs="analytic", micro_batches=[1 if normalized else 2],
                               progress=False) as trainer:
                found = []
                for batches in data:
                    found.append(trainer.step(batches if len(batches) > 1 else batches[0]))
                    scheduler.step()
                found = [float(each) for each in found]
                trainer.to_module(own)
            worst = max(abs(a - b) / abs(b) for a, b in zip(found, wanted, strict=True))
            state = reference.state_dict()
            differs = max((float((tensor.double() - state[key].double()).abs().max()) for key, tensor in own.state_dict().items()))
            print(f"{name} in {stages} stages: losses {worst:.1e}, parameters and buffers {differs:.1e}")
            self.assertLess(worst, tolerance)
            self.assertLess(differs, 1e-8 if normalized else 1e-4)  # AdamW divides small differences by small gradients
            self.assertNotAlmostEqual(found[0], found[-1], 3)


def add(name):
    setattr(Models, f"test_{name}", lambda self: self.compare(name))


if __name__ == "__main__":
    chosen = sys.argv[2:] or list(MODELS)
    del sys.argv[2:]
    for each in chosen:
        add(each)
    warnings.simplefilter("ignore")
    programs.main()
