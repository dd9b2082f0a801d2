#include "frontend/torchscript/internal/exported/exported.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "frontend/internal/batch.h"
#include "frontend/torchscript/internal/exported/exported_graph.h"
#include "frontend/torchscript/internal/exported/exported_sizes.h"
#include "frontend/torchscript/internal/exported/signature.h"
#include "frontend/torchscript/internal/results.h"
#include "frontend/torchscript/internal/stored.h"
#include "ir/dim/affine.h"

// GCC 12 sees an uninitialized variable in nlohmann's iterators.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace rannc::frontend::torchscript {

namespace {

constexpr int kDeepest = 100;

class Program {
 public:
  /// `written`: buffers of which `written_constants` of another import were known.
  Program(const ArchiveFile& file, const ExportedArchive& archive, const ImportOptions& options,
          const std::set<std::string>& written)
      : file_(file),
        archive_(archive),
        options_(options),
        written_(written),
        run_(file.path(), file.bytes(), options, notes_) {}

  Result<Imported> run() {
    const Json& module = archive_.program().at("graph_module");
    const Json& graph = module.at("graph");
    Names values;
    RANNC_TRY(bind_inputs(values, module.at("signature"), graph));
    Region root{graph_};
    auto made = run_.run(std::move(values), root, graph);
    effects_ = run_.buffer_writes();
    const auto fault = run_.fault();
    if (fault && (!made.ok() || run_.lost_state())) return *fault;
    if (!made.ok()) return made.diagnostic();
    RANNC_ASSIGN(const Item results, user_results(module, *made));
    constants_again(graph_);
    const Wanted wanted{options_.outputs, options_.required, fault, effects_};
    RANNC_TRY(add_outputs(graph_, notes_, results, wanted, file_.path()));
    notes_.nodes = run_.nodes();
    return Imported{std::move(graph_), std::move(notes_)};
  }
  std::set<std::string> written_constants() const { return torchscript::written_constants(effects_); }

 private:
  using Place = decltype(std::declval<ExportedArchive::Entry>().place());

  /// A tensor of the archive that the graph reads.
  struct Bound {
    std::string name;  ///< name in the graph
    ExportedArchive::Entry entry;
    std::string kind;       ///< parameter, buffer, tensor_constant
    bool persists = false;  ///< whether `state_dict` contains it
    Place place = {};
    bool is_trained() const { return kind == "parameter" && entry.requires_grad; }
  };

  Location where(std::string node = {}) const { return {file_.path(), 0, 0, std::move(node)}; }

  // --- inputs

  /// Tensors beside the archive are equal if they are the same memory in the same order.
  static Place place_of(ExportedArchive::Entry entry, const ir::TensorData& data) {
    entry.record = fmt::format("memory of {}", at::toString(entry.dtype));  // of which an offset is an address
    entry.offset =
        static_cast<int64_t>(reinterpret_cast<uintptr_t>(data.bytes().data()) / c10::elementSize(entry.dtype));
    int64_t stride = 1;
    entry.strides.resize(entry.sizes.size());
    for (size_t axis = entry.sizes.size(); axis-- > 0; stride *= entry.sizes[axis]) entry.strides[axis] = stride;
    return entry.place();
  }

  Result<void> bind_inputs(Names& values, const Json& signature, const Json& graph) {
    const Json& specs = signature.at("input_specs");
    RANNC_TRY(add_user_inputs(values, specs, graph.at("tensor_values")));
    std::vector<Bound> tensors;
    std::map<Place, std::vector<std::string>> names;
    for (const Json& spec : specs) {
      const auto [kind, said] = alternative_of(spec);
      if (kind == "parameter" || kind == "buffer" || kind == "tensor_constant") {
        const std::string& name = text_of(said.at(kind + "_name"));
        const bool persists = kind == "parameter" || (kind == "buffer" && said.value("persistent", true));
        auto entry = persists ? archive_.weight(name) : archive_.constant(name);
        if (!entry.ok()) return entry.diagnostic();
        // Tensors without data have no places that could be equal.
        Place place = entry->place();
        if (archive_.is_absent(*entry)) std::get<std::string>(place) = "absent " + name;
        if (const auto* const given = archive_.given(*entry)) place = place_of(*entry, *given);
        names[place].push_back(name);
        tensors.push_back({text_of(said.at("arg").at("name")), *std::move(entry), kind, persists, std::move(place)});
      } else if (kind == "constant_input") {
        const auto [of, value] = alternative_of(said.at("value"));
        RANNC_ASSIGN(values[text_of(said.at("name"))], value_of(values, of, value));
      } else if (kind != "user_input" && kind != "token") {
        return error(where(), fmt::format("an input is a {}, which is not supported", kind));
      }
    }
    note_absence(tensors);
    std::map<Place, TensorRef> made;
    SharedMemory memory;
    for (const Bound& each : tensors) {
      TensorRef& tensor = made[each.place];
      if (!tensor) {
        memory.add(std::get<std::string>(each.place), std::get<int64_t>(each.place), each.entry.sizes,
                   std::get<3>(each.place), each.entry.name, each.is_trained());
        RANNC_ASSIGN(tensor, add_tensor(each, names.at(each.place)));
      }
      if (each.kind == "buffer") buffers_[each.entry.name] = tensor->state();
      values[each.name] = at::isComplexType(each.entry.dtype) ? Item(Complex{tensor}) : Item(tensor);
    }
    return memory.check(file_.path());
  }

  // A program without data for any of its parameters was exported from the meta device.
  void note_absence(const std::vector<Bound>& tensors) {
    const auto is_parameter = [](const Bound& each) { return each.kind == "parameter"; };
    const auto has_none = [&](const Bound& each) { return !is_parameter(each) || archive_.is_absent(each.entry); };
    is_without_weights_ = std::any_of(tensors.begin(), tensors.end(), is_parameter) &&
                          std::all_of(tensors.begin(), tensors.end(), has_none);
    if (!is_without_weights_) return;
    notes_.remarks.push_back(
        {where(),
         "the archive has no numbers of its weights, as of a model on the meta device: the model can be planned "
         "but not trained, as with --without-weights, and tied weights count once for each name"});
  }

  // The first of `names` is that of the entry.
  Result<TensorRef> add_tensor(const Bound& bound, const std::vector<std::string>& names) {
    const ExportedArchive::Entry& entry = bound.entry;
    const Location at = where(entry.name);
    RANNC_ASSIGN(at::Tensor tensor, archive_.tensor(entry));
    if (!tensor.defined() && !options_.missing_weights && !is_without_weights_)
      return error(at, "the archive holds no numbers of it: it was exported without weights");
    const bool is_complex = at::isComplexType(entry.dtype);
    if (is_complex && tensor.defined()) {
      RANNC_ASSIGN(tensor, real_numbers(tensor, entry.name, bound.is_trained(), at));
    }
    ir::ValueType type;
    const auto dtype = ir::dtype_of_torch(static_cast<int>(c10::toRealValueType(entry.dtype)));
    if (!dtype)
      return error(at, fmt::format("has elements of type {}, which is not supported", at::toString(entry.dtype)));
    type.dtype = *dtype;
    type.shape.emplace(entry.sizes.begin(), entry.sizes.end());
    if (is_complex) type.shape->emplace_back(2);
    const StoredTensor stored{entry.name,
                              {names.begin() + 1, names.end()},
                              bound.is_trained()              ? Role::kParameter
                              : bound.persists && !is_complex ? Role::kConstant
                                                              : Role::kLiteral};
    ir::TensorData data;
    if (const auto* const given = archive_.given(entry); given != nullptr && !is_complex) {
      data = *given;
    } else if (tensor.defined()) {
      RANNC_ASSIGN(data, file_.data(tensor, copied_));
    }
    TensorRef made = add_stored(graph_, notes_, stored, std::move(type), std::move(data), written_);
    if (bound.kind != "parameter") made->set_state(std::string(graph_.value(made->now()).name));
    return made;
  }

  Result<ir::ValueType> type_of(const Json& meta, const std::string& name) const {
    ir::ValueType type;
    const auto scalar = scalar_type_of(integer_of(meta.at("dtype")));
    const auto dtype = scalar ? ir::dtype_of_torch(static_cast<int>(*scalar)) : std::nullopt;
    if (!dtype)
      return error(where(name),
                   fmt::format("has elements of type {}, which is not supported", meta.at("dtype").dump()));
    type.dtype = *dtype;
    type.shape.emplace();
    for (const Json& each : meta.at("sizes")) {
      const auto [kind, value] = alternative_of(each);
      if (kind == "as_int") {
        type.shape->emplace_back(integer_of(value));
        if (type.shape->back().constant() < 0) return error(where(name), "has a negative size");
        continue;
      }
      auto size = parse_size(text_of(value.at("expr_str")));
      if (!size.ok()) return error(where(name), size.diagnostic().message);
      type.shape->push_back(*std::move(size));
    }
    return type;
  }

  // Input tensors in the order of the signature. Other inputs are fixed in the program.
  Result<void> add_user_inputs(Names& values, const Json& specs, const Json& metas) {
    std::vector<InputSpec> inputs, given;
    std::vector<std::string> own;
    for (const Json& spec : specs) {
      const auto [kind, said] = alternative_of(spec);
      if (kind != "user_input") continue;
      const auto [of, value] = alternative_of(said.at("arg"));
      if (of != "as_tensor") continue;
      own.push_back(text_of(value.at("name")));
      RANNC_ASSIGN(ir::ValueType type, type_of(metas.at(own.back()), own.back()));
      inputs.push_back({own.back(), std::move(type)});
    }
    RANNC_TRY(check_symbols(inputs));
    note_ranges(inputs);
    for (const std::string& text : options_.inputs) {
      RANNC_ASSIGN(InputSpec spec, parse_input(text));
      given.push_back(std::move(spec));
    }
    RANNC_TRY(call_inputs(inputs, std::move(given)));
    std::vector<ir::ValueType> types;
    for (const InputSpec& input : inputs) types.push_back(input.type);
    RANNC_ASSIGN(const std::string batch, settle_batch(types, options_, file_.path()));
    graph_.set_batch_symbol(batch);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ValueId value = graph_.add_value(ir::ValueKind::kInput, inputs[i].name, types[i]);
      graph_.add_input(value);
      values[own[i]] = std::make_shared<Tensor>(value);
    }
    return {};
  }

  // Some axis must be affine in each symbol alone, or else no input determines it.
  Result<void> check_symbols(const std::vector<InputSpec>& inputs) const {
    std::set<std::string> known, used;
    for (const InputSpec& input : inputs) {
      for (const ir::Dim& size : *input.type.shape) {
        if (const auto form = ir::affine(size)) known.insert(form->symbol);
      }
    }
    for (const InputSpec& input : inputs) {
      for (const ir::Dim& size : *input.type.shape) {
        used.clear();
        size.collect_symbols(used);
        if (std::includes(known.begin(), known.end(), used.begin(), used.end())) continue;
        return error(where(input.name), fmt::format("has an axis of {} elements, but no axis determines its symbols: "
                                                    "export the model with a Dim for the axis itself",
                                                    size.str()));
      }
    }
    return {};
  }

  // Size ranges that the author declared or PyTorch derived.
  void note_ranges(const std::vector<InputSpec>& inputs) {
    constexpr int64_t kHighestDefault = 2;  // PyTorch itself sets lower bounds up to this
    const Json ranges = archive_.program().value("range_constraints", Json::object());
    for (const InputSpec& input : inputs) {
      for (size_t axis = 0; axis < input.type.shape->size(); ++axis) {
        const ir::Dim& size = (*input.type.shape)[axis];
        if (!size.is_symbol() || !ranges.contains(size.symbol_name())) continue;
        const Json& range = ranges.at(size.symbol_name());
        const Json low = range.value("min_val", Json()), high = range.value("max_val", Json());
        const bool is_low = low.is_number_integer() && low.get<int64_t>() > kHighestDefault,
                   is_high = high.is_number_integer();
        if (!is_low && !is_high) continue;
        notes_.remarks.push_back(
            {where(input.name),
             fmt::format("the program was exported for {}{}{} on axis {}", is_low ? "at least " + low.dump() : "",
                         is_low && is_high ? " and " : "", is_high ? "at most " + high.dump() : "", axis)});
      }
    }
  }

  // --- outputs

  /// The user's outputs, in the structure that the program returns. All other outputs are side effects.
  Result<Item> user_results(const Json& module, const std::vector<Item>& made) {
    const Json& specs = module.at("signature").at("output_specs");
    if (specs.size() != made.size())
      return error(where(),
                   fmt::format("the signature has {} outputs, but the program has {}", specs.size(), made.size()));
    std::vector<Item> results;
    for (size_t i = 0; i < specs.size(); ++i) {
      const auto [kind, said] = alternative_of(specs[i]);
      if (kind == "user_output") {
        results.push_back(made[i]);
      } else if (kind == "buffer_mutation") {
        RANNC_TRY(add_effect(made[i], text_of(said.at("buffer_name"))));
      } else if (kind != "token") {
        return error(where(), fmt::format("an output is a {}, which is not supported", kind));
      }
    }
    const Json& calls = module.at("module_call_graph");
    const Json* const signature = calls.empty() ? nullptr : &calls[0].at("signature");
    if (signature == nullptr || signature->is_null()) return list_of(std::move(results));
    const Json tree = parse_json(text_of(signature->at("out_spec")));
    if (!tree.is_array() || tree.size() != 2) return list_of(std::move(results));
    size_t next = 0;
    RANNC_ASSIGN(Item shaped, shape_of(tree[1], results, next, 0));
    if (next != results.size())
      return error(where(), "the signature has a different number of outputs than the program");
    return shaped;
  }

  // Statistics of normalizations are updated by the task that computes them. Other buffers are not updated.
  Result<void> add_effect(const Item& made, const std::string& buffer) {
    if (is_lost(made)) return *run_.fault();
    const auto* const tensor = made.get<TensorRef>();
    const bool is_statistic = made.get<Undecided>() && !made.is_of_data();
    if (is_statistic) return {};
    const TaskId maker = tensor != nullptr ? graph_.producer((*tensor)->now()) : TaskId();
    const Location at = maker.valid() ? graph_.location(maker) : where(buffer);
    effects_.push_back(buffer_write(graph_, buffers_[buffer], at, "the program writes into"));
    return {};
  }

  Result<Item> shape_of(const Json& tree, const std::vector<Item>& results, size_t& next, int depth) const {
    if (depth > kDeepest) return error(where(), "outputs are nested too deep");
    const Json& children = tree.at("children_spec");
    if (tree.at("type").is_null()) {
      if (next == results.size()) return error(where(), "the signature has more outputs than the program");
      return results[next++];
    }
    std::vector<Item> parts;
    for (const Json& child : children) {
      RANNC_ASSIGN(Item part, shape_of(child, results, next, depth + 1));
      parts.push_back(std::move(part));
    }
    // Dictionaries and similar classes have their keys in the context.
    const Json& context = tree.at("context");
    const Json keys = context.is_string() ? parse_json(text_of(context)) : Json();
    const bool has_keys = keys.is_array() && keys.size() == parts.size() &&
                          std::all_of(keys.begin(), keys.end(), [](const Json& key) { return key.is_string(); });
    if (!has_keys || parts.empty()) return list_of(std::move(parts));
    auto made = std::make_shared<Dictionary>();
    for (size_t i = 0; i < parts.size(); ++i) made->entries.emplace_back(Item(text_of(keys[i])), std::move(parts[i]));
    return Item(std::move(made));
  }

  const ArchiveFile& file_;
  const ExportedArchive& archive_;
  const ImportOptions& options_;
  const std::set<std::string>& written_;
  ir::Graph graph_;
  ImportNotes notes_;
  uint64_t copied_ = 0;  ///< bytes of tensors in memory
  bool is_without_weights_ = false;
  std::map<std::string, std::string> buffers_;  ///< names in the graph
  std::vector<BufferWrite> effects_;
  ExportedGraph run_;
};

}  // namespace

bool is_exported(const ArchiveFile& file) {
  try {
    caffe2::serialize::PyTorchStreamReader reader(file.reader());
    return reader.hasRecord("archive_format") || reader.hasRecord("serialized_exported_program.json");
  } catch (const std::exception&) {
    return false;  // the other reader reports the error
  }
}

namespace {

/// Returns the result of `read`, or an error at `where` if it throws.
template <class T>
Result<T> caught(const Location& where, const std::function<Result<T>()>& read) {
  try {
    return read();
  } catch (const nlohmann::json::exception& broken) {
    return error(where, fmt::format("does not match the schema of exported programs: {}", broken.what()));
  } catch (const c10::Error& failure) {
    return error(where, fmt::format("cannot be read: {}", failure.what_without_backtrace()));
  } catch (const std::exception& failure) {
    return error(where, fmt::format("cannot be read: {}", failure.what()));
  }
}

}  // namespace

Result<ImportParsed> parse_exported(ArchiveFile archive_file) {
  const auto file = std::make_shared<const ArchiveFile>(std::move(archive_file));
  RANNC_ASSIGN(ExportedArchive opened,
               caught<ExportedArchive>({file->path()}, [&] { return ExportedArchive::open(*file); }));
  const auto archive = std::make_shared<const ExportedArchive>(std::move(opened));
  return ImportParsed([=](const ImportOptions& options) {
    return caught<Imported>({file->path()}, [&] {
      const std::set<std::string> none;
      Program first(*file, *archive, options, none);
      auto made = first.run();
      const std::set<std::string> written = first.written_constants();
      return written.empty() ? std::move(made) : Program(*file, *archive, options, written).run();
    });
  });
}

}  // namespace rannc::frontend::torchscript
