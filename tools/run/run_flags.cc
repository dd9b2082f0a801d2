#include "tools/run/run_flags.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <memory>

#include "runtime/engine/engine.h"
#include "runtime/train/loss_scale.h"
#include "runtime/transport/transports.h"
#include "tools/common/flag_table.h"
#include "tools/common/hardware.h"

namespace rannc::tools {

namespace {

constexpr uint64_t kMostSeconds = 1'000'000;  // what waits counts milliseconds in 31 bits
constexpr uint64_t kMost = WholeRange::kMost;

/// Completes the flags after parsing. A resumed run may have the samples of its folder.
void end_parsing(const FlagTable& table, RunFlags& flags) {
  for (const FlagTable::Entry& entry : table.entries()) {
    if (entry.given()) flags.explicit_flags["--" + entry.option->get_lnames().front()] = entry.option->results();
  }
  if (flags.resume || !flags.source.validate.empty()) return;
  for (const char* flag : {"--validate-every", "--metric"}) {
    if (flags.explicit_flags.contains(flag)) throw CLI::RequiresError(flag, "--validate");
  }
}

void add_relations(FlagTable& table) {
  const auto flag = [&](const char* name) { return &table.option(name); };
  flag("--rank")->needs(flag("--world"));
  flag("--world")->needs(flag("--rank"));
  flag("--tokenizer")->needs(flag("--text"))->check(CLI::ExistingFile);
  flag("--text")->allow_extra_args(true);
  flag("--data")->excludes(flag("--text"))->excludes(flag("--tokens"));
  flag("--tokens")->excludes(flag("--text"));
  flag("--token-type")->needs(flag("--tokens"));
  flag("--sequence")->excludes(flag("--data"));
  for (const char* of_data : {"--shuffle", "--bucket-by-length", "--pad-multiple"})
    flag(of_data)->needs(flag("--data"));
  flag("--pad")->needs(flag("--pad-multiple"));
  flag("--epochs")->excludes(flag("--steps"));
  flag("--replace")->excludes(flag("--resume"));
  flag("--time-convolutions")->excludes(flag("--deterministic"));
  flag("--profile")->excludes(flag("--max-restarts"));
  flag("--partial-weights")->needs(flag("--weights"));
  flag("--accumulate-as")->needs(flag("--accumulate"));
  for (const char* alone : {"--profile", "--explain-step", "--find-nonfinite"})
    flag("--accumulate")->excludes(flag(alone));
  flag("--resume-shared")->excludes(flag("--max-restarts"));  // which would begin with them again
  flag("--averaged")->needs(flag("--export-weights"));
  flag("--transport")->check(CLI::IsMember(runtime::transport_names()));
  flag("--engine")->check(CLI::IsMember(runtime::engine_names()));
  flag("--device")->check(wrong_device);
}

}  // namespace

// Found by the types of their parameters, which an unnamed namespace would prevent.
static WorkerFlags& part(RunFlags& flags, WorkerFlags* /*type*/) { return flags.worker; }
static DataFlags& part(RunFlags& flags, DataFlags* /*type*/) { return flags.source; }
static SettingFlags& part(RunFlags& flags, SettingFlags* /*type*/) { return flags.settings; }
static WeightFlags& part(RunFlags& flags, WeightFlags* /*type*/) { return flags.weights; }

/// A range that only loss scales have.
struct PowersOfTwo {};
CLI::Validator validator(PowersOfTwo /*range*/) {
  const CLI::Validator check(
      [](const std::string& text) {
        const auto scale = parse_number(text, NumberRange{runtime::LossScale::kLeast, runtime::LossScale::kMost});
        int exponent = 0;
        const bool valid = scale && std::frexp(*scale, &exponent) == 0.5;
        return valid ? std::string() : fmt::format("expected a power of two from 1 to 2^60, found '{}'", text);
      },
      "POWER OF TWO");
  return check.name(kRangeCheck);
}

template <class Table>
void RunFlags::rows(Table& table) {
  using compiler::Bytes, compiler::Choices, compiler::Real, compiler::Whole;
  table.group("Samples");
  table.row({"--data", "PATH", kSamples,
             "`.safetensors` file with tensors `x/<input>` and `labels/<name>`, or folder of such files, read in the "
             "order of their names; or folder with `.npy` files `x/<input>.npy` and `labels/<name>.npy`"},
            &DataFlags::data);
  table.row(
      {"--shuffle", "", kSamples, "read the samples of `--data` in random order of `--seed`, a new one in each epoch"},
      &DataFlags::shuffle);
  table.row(
      {"--bucket-by-length", "", kSamples,
       "files of a folder of `--data` may have [sizes of their own](#lengths); each mini-batch has samples of one "
       "size"},
      &DataFlags::by_length);
  table.row({"--pad-multiple", "N", kSamples,
             "pad samples of `--data` at their ends, so that their sizes are multiples of N (default: no padding)"},
            &DataFlags::pad_multiple, Whole{1, uint64_t{1} << 32});
  table.row({"--pad", "INPUT=NUMBER", kSamples, "number with which `--pad-multiple` pads an input; repeatable"},
            &DataFlags::pads);
  table.row({"--tokens", "PATH", kSamples,
             "[file of tokens](#token-files) (.npy, .safetensors, llm.c, Megatron, or raw), or folder of such files, "
             "for next-token prediction; shuffled by `--seed`"},
            &DataFlags::tokens);
  table.row({"--token-type", "", kSamples,
             "of raw `--tokens` (default: `uint16` if the model's vocabulary fits, else `uint32`)"},
            &DataFlags::token_type, Choices{"uint16", "uint32", "int32", "int64"});
  table.row({"--text", "PATH…", kSamples, "files or folders of text, for next-byte prediction"}, &DataFlags::text);
  table.row({"--tokenizer", "FILE", kSamples,
             "`tokenizer.json` of Hugging Face that [encodes `--text`](#tokenizers), by Python's package `tokenizers` "
             "(default: a token per byte)"},
            &DataFlags::tokenizer);
  table.row({"--sequence", "N", kSamples,
             "tokens per sample of `--tokens` or `--text`, for a model that leaves it open (default: as planned)"},
            &DataFlags::sequence, Whole{1, uint64_t{1} << 32});
  table.row({"--load-library", "FILE", kInvocation,
             "shared library of custom operators (`TORCH_LIBRARY`) whose path has changed since the compilation"},
            &RunFlags::libraries);

  table.group("Training");
  table.row({"--steps", "N", kRun, "total number of steps, including those before a resume"}, &RunFlags::steps,
            Whole{0, kMost});
  table.row({"--epochs", "N", kRun, "total number of passes over the samples, instead of `--steps`"}, &RunFlags::epochs,
            Whole{1, uint64_t{1} << 32});
  table.row({"--accumulate", "N", kRun, "mini-batches per step: one update for all of them"}, &RunFlags::accumulate,
            Whole{1, uint64_t{1} << 20});
  table.row(
      {"--accumulate-as", "", kRun,
       "[loss of a step](#accumulation) of several mini-batches: that of one mini-batch of all samples, or the mean "
       "of their losses"},
      &RunFlags::accumulate_as, Choices{"batch", "mean"});
  table.row({"--optimizer", "", kCheckpoint, "optimizer (default: the one that the bundle was planned for)"},
            &SettingFlags::optimizer, Choices{"sgd", "adam", "adamw", "lion", "muon", "adafactor"});
  table.row({"--learning-rate", "R", kCheckpoint, "learning rate (default: 0.001)"}, &SettingFlags::learning_rate,
            Real{0, 1e300, true});
  table.row({"--momentum", "M", kCheckpoint, "momentum of `sgd` and `muon` (default: the bundle's)"},
            &SettingFlags::momentum, Real{0, 0.999999});
  table.row({"--nesterov", "", kCheckpoint, "Nesterov's momentum, for `sgd`; `muon` has it"}, &SettingFlags::nesterov);
  table.row({"--betas", "B1,B2", kCheckpoint,
             "decay of the averages of `adam`, `adamw` and `lion` (default: 0.9,0.999; `lion`: 0.9,0.99)"},
            &SettingFlags::betas, Real{0, 0.9999999});
  table.row({"--epsilon", "E", kCheckpoint, "added to the denominator of `adam` and `adamw` (default: 1e-8)"},
            &SettingFlags::epsilon, Real{0, 1});
  table.row({"--amsgrad", "", kCheckpoint, "`adam` and `adamw` divide by the largest average so far"},
            &SettingFlags::amsgrad);
  table.row({"--muon-rate", "", kCheckpoint,
             "size of the steps of `muon`: those of `adamw` at the same learning rate, or as its authors' (default: "
             "adamw)"},
            &SettingFlags::muon_rate, Choices{"adamw", "original"});
  table.row({"--weight-decay", "D", kCheckpoint,
             "weight decay (default: 0, also for `adamw` and `muon`, for which PyTorch has 0.01 and 0.1)"},
            &SettingFlags::weight_decay, Real{0});
  table.row({"--no-decay", "", kCheckpoint, "no weight decay of biases and of the scales of normalizations"},
            &SettingFlags::no_decay);
  table.row({"--no-decay-embeddings", "", kCheckpoint, "no weight decay of tables of embeddings"},
            &SettingFlags::no_decay_embeddings);
  table.row({"--group", "PATTERN: NAME=VALUE…", kCheckpoint,
             "[settings of the parameters](#groups) whose `state_dict` names match, such as '*.bias: weight_decay=0, "
             "rate=0.1x'; repeatable; `none`: no groups (default: the bundle's)"},
            &SettingFlags::groups);
  table.row({"--ema", "W", kCheckpoint,
             "keep [averaged weights](#averaged-weights), in which the old average has this weight; validation uses "
             "them; 0: none (default: the bundle's)"},
            &SettingFlags::average, Real{0, 0.9999999});
  table.row({"--warmup-steps", "N", kCheckpoint, "steps over which the learning rate rises (default: 0)"},
            &SettingFlags::warmup_steps, Whole{0, kMost});
  table.row({"--decay", "", kCheckpoint,
             "how the [learning rate](#learning-rates) falls after the warm-up; all but the last two need "
             "`--decay-steps` (default: cosine)"},
            &SettingFlags::decay, Choices{"cosine", "linear", "wsd", "inverse-sqrt", "constant"});
  table.row({"--decay-steps", "N", kCheckpoint, "step at which the [decay](#learning-rates) ends (default: no decay)"},
            &SettingFlags::decay_steps, Whole{0, kMost});
  table.row({"--decay-from", "N", kCheckpoint,
             "step at which the decay begins (default: after the warm-up; `wsd`: a fifth of `--decay-steps` before its "
             "end)"},
            &SettingFlags::decay_from, Whole{0, kMost});
  table.row({"--final-rate", "F", kCheckpoint,
             "learning rate after the decay, as a fraction of `--learning-rate` (default: 0.1)"},
            &SettingFlags::final_rate, Real{0, 1});
  table.row({"--clip-norm", "N", kCheckpoint, "maximum global norm of the gradient; 0: unlimited (default: 0)"},
            &SettingFlags::clip_norm, Real{0});
  table.row({"--loss-scale", "N", kCheckpoint,
             "initial [loss scale](../../runtime/numerics.md#mixed-precision) of a bundle of `--precision fp16`: a "
             "power of two"},
            &RunFlags::loss_scale, PowersOfTwo{});
  table.row({"--seed", "N", kCheckpoint, "seed of data and random operators (default: 0)"}, &SettingFlags::seed,
            Whole{0, UINT64_MAX});
  table.row({"--validate", "PATH", kRun,
             "samples to evaluate during training: of the form of `--data` or `--tokens`, or with `--text` a file of "
             "text"},
            &DataFlags::validate);
  table.row({"--validate-every", "N", kRun, "steps between validations; 0: only after the last step"},
            &DataFlags::validate_every, Whole{0, kMost});
  table.row({"--metric", "OUTPUT", kRun,
             "output of the model whose mean over the samples of `--validate` is reported; repeatable"},
            &DataFlags::metrics);
  table.row({"--evaluate", "", kInvocation,
             "compute outputs and loss of all samples of `--data` without training (with `--resume`, from the latest "
             "checkpoint); implied for a bundle without a loss"},
            &RunFlags::evaluate);
  table.row(
      {"--engine", "ENGINE", kReported,
       runtime::engine_summaries() + " (default: native on the processor if the bundle has that form, else explicit)"},
      &RunFlags::engine);

  table.group("Workers");
  table.row({"--transport", "TRANSPORT", kReported,
             fmt::format("{} (default: {} if torchrun, mpirun or srun has started several processes, else {})",
                         runtime::transport_summaries(), runtime::default_transport(true).name,
                         runtime::default_transport(false).name)},
            &RunFlags::transport);
  table.row({"--rank", "N", kInvocation,
             "number of this worker, which runs that device of the plan; see [ranks](rannc-stage.md#ranks) (default: "
             "from torchrun, mpirun, mpiexec or srun)"},
            &WorkerFlags::rank, Whole{0, UINT32_MAX});
  table.row({"--world", "N", kInvocation, "number of workers: that of the plan's devices"}, &WorkerFlags::world,
            Whole{1, UINT32_MAX});
  table.row({"--master", "HOST:PORT", kInvocation,
             "address on which worker 0 listens (default: `MASTER_ADDR` and `MASTER_PORT`)"},
            &WorkerFlags::master);
  table.row({"--insecure", "", kInvocation,
             "let worker 0 listen on an address that other machines reach although `RANNC_SECRET` is not set; [who is "
             "then trusted](../../runtime/transports.md#trust)"},
            &WorkerFlags::insecure);
  table.row({"--device", "DEVICE", kReported,
             "`cpu`, `cuda` (all GPUs of this machine; device i of the plan on GPU i, then from the first again) or "
             "`cuda:N` (default: GPUs if the plan is for them and there are any)"},
            &RunFlags::device);
  table.row({"!--no-cuda-graphs", "", kInvocation,
             "enqueue each kernel in every step, instead of [recording](../../runtime/devices.md#recordings) steps and "
             "replaying them"},
            &RunFlags::cuda_graphs);
  table.row({"--matmul-precision", "", kReported,
             "of float32 products, convolutions and recurrent layers on GPUs: `highest`, or `high` for TF32"},
            &RunFlags::matmul_precision, Choices{"highest", "high"});
  table.row(
      {"--deterministic", "", kReported, "on GPUs, use only kernels whose results have the same bits in every run"},
      &RunFlags::deterministic);
  table.row({"--time-convolutions", "", kReported,
             "on GPUs, let cuDNN time its kernels for each new size of a convolution, and take the fastest; bits may "
             "differ from run to run"},
            &RunFlags::time_convolutions);
  table.row({"--threads", "N", kReported, "threads per worker"}, &RunFlags::threads, Whole{1, 1024});
  table.row({"--timeout", "N", kInvocation,
             "seconds to wait for another worker, and to work without [progress](#lost-workers) (default: 60, or ten "
             "predicted steps if that is longer)"},
            &RunFlags::timeout_seconds, Whole{1, kMostSeconds});
  table.row({"--late-recompute", "", kInvocation,
             "repeat forward work only after the gradient of a backward pass has arrived, to measure what the overlap "
             "is worth"},
            &RunFlags::late_recompute);
  table.row({"--late-sums", "", kInvocation,
             "replicas sum gradients only after the backward pass, to measure what the overlap is worth"},
            &RunFlags::late_sums);
  table.row({"--max-restarts", "N", kReported,
             "how often to start all workers again, from the latest checkpoint, after one was [lost](#lost-workers); "
             "for workers that rannc-run starts"},
            &RunFlags::max_restarts, Whole{0, UINT32_MAX});

  table.group("Output");
  table.row({"-o,--output", "FOLDER", kInvocation,
             "folder for checkpoints, trace and report (default: the bundle's name with .run)"},
            &RunFlags::output);
  table.row({"--resume", "", kInvocation,
             "[continue](#resuming) from the latest checkpoint in the output folder, with the settings of its run "
             "unless flags override them"},
            &RunFlags::resume);
  table.row({"--resume-shared", "RUN", kInvocation,
             "begin with the parameters and buffers of the same names in the latest checkpoint of another run, which "
             "[takes turns](alternating.md) with this one"},
            &RunFlags::resume_shared);
  table.row({"--replace", "", kInvocation, "remove a previous run in the output folder"}, &RunFlags::replace);
  table.row({"--checkpoint-every", "N", kRun, "steps between checkpoints; 0: only at the end"},
            &RunFlags::checkpoint_every, Whole{0, kMost});
  table.row({"--keep", "N", kCheckpoint,
             "number of newest checkpoints to keep: older ones are removed after a newer one is complete; 0: all "
             "(default: 0)"},
            &SettingFlags::kept_checkpoints, Whole{0, kMost});
  table.row({"--loss-log", "FILE", kReported,
             "additional file with the contents of losses.txt in the output folder: a line per step with its number "
             "and its loss as a hexadecimal float"},
            &RunFlags::loss_log);
  table.row({"--log", "FILE", kReported,
             "file for a JSON object per step: loss, learning rate, speed, gradient norm, validation"},
            &RunFlags::log);
  table.row({"--tensorboard", "FOLDER", kReported, "folder for the same measurements as TensorBoard events"},
            &RunFlags::tensorboard);
  table.row({"--profile", "", kInvocation,
             "report [where the time of a step goes](step-profile.md), by kind of work and by task of the model; also "
             "written to report.html and profile.json"},
            &RunFlags::profile);
  table.row({"--explain-step", "", kInvocation,
             "report [planned beside measured](step-profile.md#planned-beside-measured) times: by device, stage and "
             "action; also written to actions.tsv"},
            &RunFlags::explain_step);
  table.row({"--find-nonfinite", "", kReported,
             "if a step makes NaN or infinite numbers, [name the task](#numbers-that-are-not-finite) that made the "
             "first ones; examines all results, by engine explicit"},
            &RunFlags::find_nonfinite);

  table.group("Weights");
  table.row({"--weights", "FILE", kInvocation,
             ".safetensors file with [`state_dict` names](parameters.md#weights-by-pytorch-names), whose tensors "
             "replace the bundle's initial weights; a resumed run uses those of its checkpoint"},
            &WeightFlags::from);
  table.row({"--partial-weights", "", kInvocation,
             "allow `--weights` to lack names of the model, which keep their values, and to have other names, which "
             "are ignored (`strict=False`)"},
            &WeightFlags::partial);
  table.row({"--export-weights", "FILE", kReported,
             ".safetensors file to write the final parameters and buffers to, with `state_dict` names; without a "
             "source of samples, those of the bundle, or with `--resume` of the latest checkpoint"},
            &WeightFlags::to);
  table.row({"--averaged", "", kReported, "`--export-weights` writes the averages of `--ema`"}, &WeightFlags::averaged);
}

std::string RunFlags::output_folder() const {
  return output.empty() ? std::filesystem::path(bundle).replace_extension(".run").string() : output;
}

RunFolderUse RunFlags::folder_use() const {
  if (resume) return RunFolderUse::kResume;
  return replace ? RunFolderUse::kReplace : RunFolderUse::kNew;
}

std::optional<FlagScope> scope_of(std::string_view flag) {
  CLI::App app;
  RunFlags flags;
  FlagTable table(app);
  table.add(flags);
  for (const FlagTable::Entry& entry : table.entries()) {
    if (entry.option->check_name(std::string(flag))) return static_cast<FlagScope>(entry.row.inputs);
  }
  return std::nullopt;
}

void add_run_flags(CLI::App& app, RunFlags& flags) {
  const auto table = std::make_shared<FlagTable>(app);
  table->add(flags);
  add_relations(*table);
  app.option_defaults()->group("Options");
  app.parse_complete_callback([table, &flags] { end_parsing(*table, flags); });
}

}  // namespace rannc::tools
