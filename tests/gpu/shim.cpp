// A "CUDA backend" without CUDA: just enough for autograd to record and run graphs of tensors that say `cuda:N`.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

using c10::Device, c10::DeviceIndex, c10::DeviceType, c10::Stream;
constexpr auto CUDA = DeviceType::CUDA;
constexpr DeviceIndex DEVICES = 8;
static int current = 0;

extern "C" void ghost_set_device(int index) { current = index; }

struct GhostGuard : public c10::impl::NoOpDeviceGuardImpl<CUDA> {
  Device exchangeDevice(Device to) const override {
    auto before = current;
    current = to.index();
    return Device(CUDA, before);
  }
  void setDevice(Device to) const override { current = to.index(); }
  void uncheckedSetDevice(Device to) const noexcept override { current = to.index(); }
  Device getDevice() const override { return Device(CUDA, current); }
  DeviceIndex deviceCount() const noexcept override { return DEVICES; }
  // one stream for everything: what runs on the CPU runs in order
  Stream getStream(Device on) const noexcept override { return Stream(Stream::DEFAULT, on); }
  Stream getNewStream(Device on, int = 0) const override { return Stream(Stream::DEFAULT, on); }
  Stream exchangeStream(Stream to) const noexcept override { return Stream(Stream::DEFAULT, to.device()); }
  void record(void**, const Stream&, const DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {}
  void synchronizeDevice(const DeviceIndex) const override {}
  void recordDataPtrOnStream(const c10::DataPtr&, const Stream&) const override {}
};

// torch looks the hooks up by the name of this class
struct CUDAHooks : public at::CUDAHooksInterface {
  explicit CUDAHooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return DEVICES; }
  DeviceIndex getCurrentDevice() const override { return current; }
  DeviceIndex current_device() const override { return current; }
  const at::Generator& getDefaultGenerator(DeviceIndex = -1) const override { return at::detail::getDefaultCPUGenerator(); }
  at::Generator getNewGenerator(DeviceIndex = -1) const override { return at::detail::createCPUGenerator(); }
};

using at::CUDAHooksRegistry;
using at::RegistererCUDAHooksRegistry;
REGISTER_CUDA_HOOKS(CUDAHooks)
static c10::impl::DeviceGuardImplRegistrar guard(CUDA, new GhostGuard());
