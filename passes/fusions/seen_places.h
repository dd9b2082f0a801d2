/// Masks of attention that the runtime checks: which places rows see follows from an input of whole numbers.
#pragma once

#include <optional>

#include "ir/graph/graph.h"

namespace rannc::passes::fusion {

/// Where a mask comes from.
struct SeenPlaces {
  ValueId value;         ///< the condition, or the whole numbers that stand for it
  bool hides = false;    ///< true marks places that are hidden
  bool numbers = false;  ///< `value` has whole numbers: 1 marks places that are seen, 0 hidden ones, and others none
};

/// The places that a condition lets through, with `hides` those that it hides. Nothing unless whole-number operators
/// compute it from one input of the model, and all rows of a sample are the same.
std::optional<SeenPlaces> places_by_condition(const ir::Graph& graph, ValueId condition, bool hides);

/// The same of a mask of floats that is added to scores, which is 0 at places that are seen and leaves nothing of the
/// score of others: a choice by a condition, or (1 - numbers) times a number.
std::optional<SeenPlaces> places_by_addend(const ir::Graph& graph, ValueId mask);

/// Whether a score plus this number is the same for all scores, and its exponential 0 beside any seen place.
constexpr bool leaves_nothing(double addend) { return addend < -1e30; }

}  // namespace rannc::passes::fusion
