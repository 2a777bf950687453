#include "graph/own_stream.hpp"

#include <c10/core/Event.h>
#include <c10/util/Exception.h>

namespace cohort {
namespace {

void order(const c10::Stream& later, const c10::Stream& earlier) {
  c10::Event event(earlier.device_type());
  event.record(earlier);
  event.block(later);
}

}  // namespace

OwnStream::OwnStream(c10::Device device)
    : guard_(device.type()), before_(guard_.getStream(device)), own_(guard_.getNewStream(device)) {
  order(own_, before_);
  guard_.exchangeStream(own_);
}

OwnStream::~OwnStream() {
  try {
    guard_.exchangeStream(before_);
    order(before_, own_);
  } catch (const c10::Error&) {
    // A device that fails orders nothing any more; the training has said why.
  }
}

}  // namespace cohort
