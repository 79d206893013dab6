// SPDX-License-Identifier: GPL-2.0
/*
 * PCI accelerators that are not there: a PCI domain of its own whose devices consist of a made-up
 * configuration space. lspci and sysfs show them with class, NUMA node and PCIe link; there is no
 * memory and no interrupt behind them, so that a real driver refuses them.
 *
 *	insmod fake_accelerators.ko count=8 numa=1
 *	echo 3 > /sys/module/fake_accelerators/parameters/degraded	the fourth one's link, live
 *	echo 2 > /sys/module/fake_accelerators/parameters/lost		the third one answers all ones
 */
#include <linux/module.h>
#include <linux/pci.h>

#define DOMAIN 0x10000	/* none that firmware can have given */
#define PCIE 0x40	/* where the PCI Express capability is */

static ushort vendor = 0x10de;
static ushort device = 0x2330;
static uint class = 0x030200;
static uint count = 8;
static int numa;
static ushort width = 16;
static ushort speed = 5;
static int degraded = -1;
static int lost = -1;

module_param(vendor, ushort, 0444);
module_param(device, ushort, 0444);
module_param(class, uint, 0444);
module_param(count, uint, 0444);
MODULE_PARM_DESC(count, "number of devices, at most 32");
module_param(numa, int, 0444);
module_param(width, ushort, 0444);
MODULE_PARM_DESC(width, "lanes");
module_param(speed, ushort, 0444);
MODULE_PARM_DESC(speed, "generation: 5 is 32 GT/s");
module_param(degraded, int, 0644);
MODULE_PARM_DESC(degraded, "number of the device whose link is at half width and generation 1");
module_param(lost, int, 0644);
MODULE_PARM_DESC(lost, "number of the device that has fallen off the bus");

static struct pci_sysdata sysdata = { .domain = DOMAIN };
static struct resource buses = { .name = "fake accelerators", .end = 0, .flags = IORESOURCE_BUS };
static struct pci_bus *root;

static void put16(u8 *space, int where, u16 value)
{
	space[where] = value & 0xff;
	space[where + 1] = value >> 8;
}

static void fill(u8 *space, int slot)
{
	bool slow = slot == degraded;

	put16(space, PCI_VENDOR_ID, vendor);
	put16(space, PCI_DEVICE_ID, device);
	put16(space, PCI_COMMAND, PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
	put16(space, PCI_STATUS, PCI_STATUS_CAP_LIST);
	space[PCI_REVISION_ID] = 0xa1;
	space[PCI_CLASS_PROG] = class & 0xff;
	put16(space, PCI_CLASS_DEVICE, class >> 8);
	put16(space, PCI_SUBSYSTEM_VENDOR_ID, vendor);
	put16(space, PCI_SUBSYSTEM_ID, device);
	space[PCI_CAPABILITY_LIST] = PCIE;

	space[PCIE] = PCI_CAP_ID_EXP;
	put16(space, PCIE + PCI_EXP_FLAGS, 2 | PCI_EXP_TYPE_ENDPOINT << 4);
	put16(space, PCIE + PCI_EXP_LNKCAP, speed | width << 4);
	put16(space, PCIE + PCI_EXP_LNKSTA, slow ? 1 | (width / 2) << 4 : speed | width << 4);
	/* bit 1 is generation 1 */
	put16(space, PCIE + PCI_EXP_LNKCAP2, (2 << speed) - 2);
	put16(space, PCIE + PCI_EXP_LNKCTL2, speed);
}

static int read(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 *value)
{
	u8 space[256] = {};
	int slot = PCI_SLOT(devfn);

	if (PCI_FUNC(devfn) || slot >= count || slot == lost) {
		*value = ~0;
		return PCIBIOS_DEVICE_NOT_FOUND;
	}
	fill(space, slot);
	*value = 0;
	if (where + size <= sizeof(space))
		memcpy(value, space + where, size);	/* both little-endian: this is for x86 */
	return PCIBIOS_SUCCESSFUL;
}

static int write(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 value)
{
	return PCIBIOS_SUCCESSFUL;
}

static struct pci_ops ops = { .read = read, .write = write };

static int __init start(void)
{
	LIST_HEAD(resources);

	if (count > 32 || speed < 1 || speed > 6)
		return -EINVAL;
	sysdata.node = numa;
	pci_add_resource(&resources, &buses);
	pci_lock_rescan_remove();
	root = pci_create_root_bus(NULL, 0, &ops, &sysdata, &resources);
	if (root) {
		pci_scan_child_bus(root);
		pci_bus_add_devices(root);
	}
	pci_unlock_rescan_remove();
	if (!root) {
		pci_free_resource_list(&resources);
		return -ENODEV;
	}
	return 0;
}

static void __exit stop(void)
{
	pci_lock_rescan_remove();
	pci_stop_root_bus(root);
	pci_remove_root_bus(root);
	pci_unlock_rescan_remove();
}

module_init(start);
module_exit(stop);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("PCI accelerators that are not there, to practise on");
