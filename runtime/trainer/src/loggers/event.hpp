// The messages of an event file that TensorBoard reads (its event.proto and summary.proto), encoded.
//
// Names and texts may hold any bytes: what is no UTF-8 becomes the sign for an unknown character, since readers refuse
// a whole file for it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <cohort/logger.hpp>

#include "loggers/histogram.hpp"
#include "loggers/protobuf.hpp"

namespace cohort {

struct EventTime {
  double seconds = 0;  ///< since 1970
  uint64_t step = 0;
};

/// The first event of every file.
ProtobufMessage file_version_event(double seconds);
/// A run goes on: readers forget what they have read of this step and later ones.
ProtobufMessage session_start_event(const EventTime& time);
ProtobufMessage summary_event(const EventTime& time, std::span<const ProtobufMessage> values);

// Values of a summary. Each is a time series by its name.
ProtobufMessage scalar_value(std::string_view name, double value);
ProtobufMessage text_value(std::string_view name, std::string_view text);
ProtobufMessage histogram_value(std::string_view name, const Histogram& histogram);
/// Makes the HParams dashboard show the run. There is no value for an experiment, a list of all names: TensorBoard
/// would take that of one run for all runs of a folder, and hide other names. Without any it makes a complete one by
/// itself.
ProtobufMessage hyper_parameters_value(const HyperParameters& parameters, double start_seconds);
/// Says that the run has succeeded. Readers take the first of its kind, so a run that may go on must not have one.
ProtobufMessage success_value(double end_seconds);

}  // namespace cohort
