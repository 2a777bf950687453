// Memory in which backward makes large gradients, so that nobody has to copy them for the wire.
//
// Borrows the memory: slots with room for one gradient each. While a thread holds a Use, what it allocates of exactly a
// slot's size lies in a free slot, if there is one, and all else where LibTorch puts it. A slot is free again when the
// last tensor that lies in it is gone, on whatever thread. A gradient that found no slot is as good as any.
#pragma once

#include <cstddef>
#include <span>

namespace cohort {

class GradientSlots {
 public:
  explicit GradientSlots(std::span<const std::span<std::byte>> memory);
  ~GradientSlots();  // tensors that lie in slots stay there
  GradientSlots(const GradientSlots&) = delete;
  GradientSlots& operator=(const GradientSlots&) = delete;

  /// Slots in which a tensor lies. Their memory must stay for as long as it does.
  size_t in_use() const;

  class Use {
   public:
    /// Null: all lies where LibTorch puts it.
    explicit Use(const GradientSlots* slots);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    const GradientSlots* before_;
  };
};

}  // namespace cohort
